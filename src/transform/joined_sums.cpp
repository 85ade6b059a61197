#include "transform/joined_sums.h"

#include <fmt/format.h>

#include "transform/rewriter.h"

namespace plimsoll {
namespace {

bool may_join(const Node& node) { return node.op == Op::kSumSquares && node.row_count == kNoValue; }

}  // namespace

Graph join_sums(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  const std::deque<Node>& nodes = graph.nodes();
  int joined = 0;
  for (std::size_t first = 0; first < nodes.size();) {
    std::size_t end = first;
    while (end < nodes.size() && may_join(nodes[end])) ++end;
    if (end < first + 2) {
      rewriter.copy_node(nodes[first++]);
      continue;
    }
    Node all{.op = Op::kSumSquares, .name = fmt::format("sum_squares.{}", joined++), .phase = nodes[first].phase};
    for (std::size_t n = first; n < end; ++n) {
      for (const ValueId input : nodes[n].inputs) all.inputs.push_back(rewriter.mapped(input));
    }
    const std::vector<ValueId> sums = rewriter.graph().add_node(std::move(all));
    std::size_t sum = 0;
    for (std::size_t n = first; n < end; ++n) {
      for (const ValueId output : nodes[n].outputs) rewriter.map(output, sums[sum++]);
    }
    first = end;
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
