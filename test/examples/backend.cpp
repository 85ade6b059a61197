// Compiles the examples of src/backend.
#include "backend/backend.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/scratch.h"
#include "backend/stored_memory.h"
#include "backend/transfers.h"
#include "backend/widened_kernel.h"

namespace plimsoll::examples {

void of_backend(Backend& backend, const Graph& graph, const Node& node, const std::vector<TensorView>& in,
                const std::vector<TensorView>& out, std::span<std::byte> scratch, std::int32_t rows) {
#include "backend/backend.h.inc"
}

void of_scratch(const KernelArguments& arguments, std::int64_t count) {
#include "backend/scratch.h.inc"
}

void of_transfers(Transfers& transfers, std::span<std::byte> tensor){
#include "backend/transfers.h.inc"
}

void of_stored_memory(OffloadStore& store, std::uint64_t offset, std::span<const std::byte> bytes) {
#include "backend/stored_memory.h.inc"
}

std::unique_ptr<Kernel> of_widened_kernel(const Graph& graph, const Node& node, const PrepareKernel& make_f32_kernel) {
#include "backend/widened_kernel.h.inc"
  return nullptr;
}

}  // namespace plimsoll::examples
