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

namespace {

bool works_on_halves(const Graph& graph, const Node& node) {
  const auto is_one = [&](ValueId value) { return is_half(graph.type(value).dtype); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_one) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_one);
}

}  // namespace

std::size_t speed_index(const Graph& graph, const Node& node) {
  const std::size_t half = works_on_halves(graph, node) ? kSpeedForms : 0;
  const bool coded = (node.op == Op::kAdamW || node.op == Op::kAdamWRows) && update_form(graph, node).coded;
  if (!coded) return half + static_cast<std::size_t>(node.op);
  return half + (node.op == Op::kAdamW ? kOpCount : kOpCount + 1);
}

std::string speed_name(std::size_t index) {
  const std::size_t form = index % kSpeedForms;
  const std::string_view name = form < kOpCount    ? op_name(static_cast<Op>(form))
                                : form == kOpCount ? "adamw_codes"
                                                   : "adamw_rows_codes";
  return std::string(name) + (index < kSpeedForms ? "" : "_half");
}

double estimate_seconds(const Graph& graph, const OpSpeeds& speeds, double row_share) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    sum += speeds.seconds(graph, node) * (node.row_count == kNoValue ? 1 : row_share);
  }
  return sum;
}

}  // namespace plimsoll
