#include "graph/product_batches.h"

#include <algorithm>

namespace plimsoll {
namespace {

bool same_types(const Graph& graph, const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
  return std::ranges::equal(a, b, [&](ValueId x, ValueId y) { return graph.type(x) == graph.type(y); });
}

bool reads(const Node& reader, const Node& maker) {
  return std::ranges::any_of(
      maker.outputs, [&](ValueId made) { return std::ranges::find(reader.inputs, made) != reader.inputs.end(); });
}

}  // namespace

bool is_product(Op op) {
  return op == Op::kLinear || op == Op::kLinearAdd || op == Op::kLinearInputGrad || op == Op::kLinearWeightGrad;
}

bool can_batch(const Graph& graph, const Node& a, const Node& b) {
  return is_product(a.op) && a.op == b.op && a.phase == b.phase && a.row_count == b.row_count &&
         same_types(graph, a.inputs, b.inputs) && same_types(graph, a.outputs, b.outputs) && !reads(a, b) &&
         !reads(b, a);
}

std::size_t batched_products(const Graph& graph, std::size_t first) {
  const std::deque<Node>& nodes = graph.nodes();
  std::size_t end = first + 1;
  const auto fits = [&](std::size_t n) {
    for (std::size_t before = first; before < n; ++before) {
      if (!can_batch(graph, nodes[before], nodes[n])) return false;
    }
    return true;
  };
  while (end < nodes.size() && end - first < kMostBatched && fits(end)) ++end;
  return end - first;
}

}  // namespace plimsoll
