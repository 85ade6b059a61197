// Compiles the examples of src/graph and src/autodiff.
#include "graph/graph.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autodiff/autodiff.h"
#include "examples/use.h"
#include "graph/box_size.h"
#include "graph/build.h"
#include "graph/op_facts.h"
#include "graph/op_table.h"
#include "graph/partial_sums.h"
#include "graph/product_batches.h"
#include "graph/shape_rule.h"

namespace plimsoll::examples {

void of_box_size(std::int64_t x0, std::int64_t x1, std::int64_t table_rows) {
#include "graph/box_size.h.inc"
}

void of_graph(ValueId rows) {
#include "graph/graph.h.inc"
}

void of_op_facts(const Graph& graph, const Node& node, std::size_t output, double seconds_per_unit) {
#include "graph/op_facts.h.inc"
  use(is_cheap, seconds);
}

void gelu_rule(Graph& graph, const Node& node);
void tanh_rule(Graph& graph, const Node& node);
void of_op_table(Graph& graph, const Node& node) {
#include "graph/op_table.h.inc"
}

void of_partial_sums(Node& node) {
#include "graph/partial_sums.h.inc"
  use(of);
}

void of_product_batches(const Graph& graph, std::size_t n) {
#include "graph/product_batches.h.inc"
  use(count);
}

#include "graph/shape_rule.h.inc"

void of_autodiff(Graph& graph, ValueId loss, const std::vector<ValueId>& parameters, ValueId weight) {
#include "autodiff/autodiff.h.inc"
}

}  // namespace plimsoll::examples
