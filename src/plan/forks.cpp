#include "plan/forks.h"

#include <algorithm>
#include <deque>

namespace plimsoll {
namespace {

bool may_fork(Op op) { return op == Op::kLinear || op == Op::kLinearWeightGrad; }

// Returns for each node the first later node that reads one of its outputs, or overwrites one of its inputs; the number
// of nodes if there is none.
std::vector<NodeId> first_dependents(const Graph& graph) {
  const auto end = static_cast<NodeId>(graph.nodes().size());
  std::vector<NodeId> dependents(graph.nodes().size(), end);
  std::vector<NodeId> reader(graph.values().size(), end), writer(graph.values().size(), end);  // of each value, after n
  for (NodeId n = end - 1; n >= 0; --n) {
    const Node& node = graph.node(n);
    NodeId& first = dependents[static_cast<std::size_t>(n)];
    for (const ValueId output : node.outputs) first = std::min(first, reader[static_cast<std::size_t>(output)]);
    for (const ValueId input : node.inputs) first = std::min(first, writer[static_cast<std::size_t>(input)]);
    if (node.row_count != kNoValue) {
      first = std::min(first, writer[static_cast<std::size_t>(node.row_count)]);
      reader[static_cast<std::size_t>(node.row_count)] = n;
    }
    for (const ValueId input : node.inputs) reader[static_cast<std::size_t>(input)] = n;
    for (const Alias& alias : op_aliases(node.op, node.inputs.size())) {
      if (alias.kind == Alias::Kind::kMust) writer[static_cast<std::size_t>(node.inputs[alias.input])] = n;
    }
  }
  return dependents;
}

}  // namespace

std::vector<NodeId> find_joins(const Graph& graph, std::size_t at_once) {
  std::vector<NodeId> joins(graph.nodes().size(), kNoNode);
  if (at_once == 0) return joins;
  const std::vector<NodeId> dependents = first_dependents(graph);
  std::deque<NodeId> forked;  // the last `at_once`
  for (NodeId n = 0; n < static_cast<NodeId>(joins.size()); ++n) {
    const NodeId dependent = dependents[static_cast<std::size_t>(n)];
    if (!may_fork(graph.node(n).op) || dependent <= n + 1) continue;
    joins[static_cast<std::size_t>(n)] = dependent;
    if (forked.size() == at_once) {
      NodeId& join = joins[static_cast<std::size_t>(forked.front())];
      join = std::min(join, n);
      forked.pop_front();
    }
    forked.push_back(n);
  }
  return joins;
}

}  // namespace plimsoll
