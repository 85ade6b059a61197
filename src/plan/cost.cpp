#include "plan/cost.h"

#include <algorithm>

#include "graph/update_form.h"

namespace plimsoll {
namespace {

double elements(const Graph& graph, ValueId value) { return static_cast<double>(graph.type(value).shape.elements()); }

double last_dimension(const Graph& graph, ValueId value) {
  const Shape& shape = graph.type(value).shape;
  return static_cast<double>(shape[shape.rank() - 1]);
}

}  // namespace

double work_of(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kLinear:
      return elements(graph, node.outputs[0]) * last_dimension(graph, node.inputs[0]);
    case Op::kLinearInputGrad:
      return elements(graph, node.inputs[0]) * last_dimension(graph, node.outputs[0]);
    case Op::kLinearWeightGrad:
      return elements(graph, node.inputs[0]) * last_dimension(graph, node.inputs[1]);
    case Op::kAttention:
    case Op::kAttentionGrad: {
      // Rows attend within their sample: n/B keys each. inputs[0] is f[n, D] in both, sample offsets i32[B+1].
      const ValueId offsets = node.inputs[node.op == Op::kAttention ? 3 : 6];
      const double samples = std::max(1.0, elements(graph, offsets) - 1);
      const double rows = static_cast<double>(graph.type(node.inputs[0]).shape[0]);
      return elements(graph, node.inputs[0]) * rows / samples;
    }
    case Op::kEmbedding:
    case Op::kSpatialEmbedding:  // tables are read where the ids point, not whole
      return 2 * elements(graph, node.outputs[0]);
    default: {
      double sum = 0;
      for (const ValueId value : node.inputs) sum += elements(graph, value);
      for (const ValueId value : node.outputs) sum += elements(graph, value);
      return sum;
    }
  }
}

std::size_t speed_index(const Graph& graph, const Node& node) {
  const bool coded = (node.op == Op::kAdamW || node.op == Op::kAdamWRows) && update_form(graph, node).coded;
  if (!coded) return static_cast<std::size_t>(node.op);
  return node.op == Op::kAdamW ? kOpCount : kOpCount + 1;
}

std::string_view speed_name(std::size_t index) {
  if (index < kOpCount) return op_name(static_cast<Op>(index));
  return index == kOpCount ? "adamw_codes" : "adamw_rows_codes";
}

double estimate_seconds(const Graph& graph, const OpSpeeds& speeds, double row_share) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    sum += speeds.seconds(graph, node) * (node.row_count == kNoValue ? 1 : row_share);
  }
  return sum;
}

}  // namespace plimsoll
