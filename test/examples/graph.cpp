// Compiles the examples of src/graph and src/autodiff.
#include "graph/graph.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autodiff/autodiff.h"
#include "graph/box_size.h"
#include "graph/build.h"

namespace plimsoll::examples {

void of_box_size(std::int64_t x0, std::int64_t x1, std::int64_t table_rows) {
#include "graph/box_size.h.inc"
}

void of_graph(ValueId rows) {
#include "graph/graph.h.inc"
}

void of_autodiff(Graph& graph, ValueId loss, const std::vector<ValueId>& parameters, ValueId weight) {
#include "autodiff/autodiff.h.inc"
}

}  // namespace plimsoll::examples
