// Compiles the examples of src/runtime.
#include <cstddef>
#include <utility>

#include "base/log.h"
#include "runtime/checked_run.h"
#include "runtime/program.h"
#include "runtime/transfer_queue.h"

namespace plimsoll::examples {

void of_checked_run(const Program& program) {
#include "runtime/checked_run.h.inc"
}

void of_program(Graph graph, Backend& backend, const PersistentLayout& layout) {
#include "runtime/program.h.inc"
}

void of_transfer_queue(OffloadFile& file, std::size_t tickets, PreparedGraph prepared, const MemoryPlan& plan,
                       const DeviceMemory& arena) {
#include "runtime/transfer_queue.h.inc"
}

}  // namespace plimsoll::examples
