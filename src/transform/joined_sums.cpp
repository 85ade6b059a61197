#include "transform/joined_sums.h"

#include <fmt/format.h>

#include <deque>
#include <vector>

#include "transform/rewriter.h"

namespace plimsoll {
Graph join_sums(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  const std::deque<Node>& nodes = graph.nodes();
  int joined = 0;
  for (std::size_t first = 0; first < nodes.size();) {
    std::size_t end = first;
    while (end < nodes.size() && nodes[end].op == Op::kSumSquares) ++end;
    if (end == first) {
      rewriter.copy_node(nodes[first++]);
      continue;
    }
    std::vector<const Node*> together;
    for (; first < end; ++first) {
      if (nodes[first].row_count == kNoValue) {
        together.push_back(&nodes[first]);
      } else {
        rewriter.copy_node(nodes[first]);
      }
    }
    if (together.size() < 2) {
      for (const Node* const node : together) rewriter.copy_node(*node);
      continue;
    }
    Node all{.op = Op::kSumSquares, .name = fmt::format("sum_squares.{}", joined++), .phase = together[0]->phase};
    for (const Node* const node : together) {
      for (const ValueId input : node->inputs) all.inputs.push_back(rewriter.mapped(input));
    }
    const std::vector<ValueId> sums = rewriter.graph().add_node(std::move(all));
    std::size_t sum = 0;
    for (const Node* const node : together) {
      for (const ValueId output : node->outputs) rewriter.map(output, sums[sum++]);
    }
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
