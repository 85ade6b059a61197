// Compiles the examples of src/plan.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/use.h"
#include "plan/memory_plan.h"
#include "plan/packing_search.h"
#include "plan/placing.h"

namespace plimsoll::examples {

void of_memory_plan(const Graph& graph, const std::vector<std::size_t>& scratch_bytes) {
#include "plan/memory_plan.h.inc"
}

void of_packing_search(const std::vector<Interval>& intervals) {
#include "plan/packing_search.h.inc"
}

void of_placing(const std::vector<Interval>& intervals, std::size_t lower_bound, std::int64_t max_steps) {
#include "plan/placing.h.inc"
}

}  // namespace plimsoll::examples
