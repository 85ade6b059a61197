#include "transform/rounded_parameters.h"

#include <algorithm>
#include <map>
#include <vector>

#include "transform/rewriter.h"

namespace plimsoll {
namespace {

constexpr std::size_t kWeight = 1, kBias = 2;  // among a map's inputs
constexpr std::int64_t kNarrow = 64;           // an adapter's rank, or so

// Returns whether input i of the node is a parameter that the cast rounds.
bool rounds(const Graph& graph, const Node& node, std::size_t i) {
  const bool maps = node.op == Op::kLinear || node.op == Op::kLinearAdd || node.op == Op::kLinearInputGrad;
  const bool is_weight = i == kWeight, is_bias = i == kBias && node.op == Op::kLinear;
  if (!maps || i >= node.inputs.size() || !(is_weight || is_bias)) return false;
  const DType rows = graph.type(node.inputs[0]).dtype;
  const Value& value = graph.value(node.inputs[i]);
  if (!is_half(rows) || value.type.dtype != wide(rows)) return false;
  const std::int64_t outer = value.type.shape[0];
  if (is_weight && std::min(outer, value.type.shape.elements() / std::max<std::int64_t>(outer, 1)) > kNarrow)
    return false;
  return value.producer == kNoNode && value.role == Role::kParameter;
}

}  // namespace

Graph round_parameters(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  std::map<ValueId, std::size_t> numbers;  // by the old parameter
  Node cast{.op = Op::kCast, .name = "rounded_parameters"};
  for (const Node& node : graph.nodes()) {
    for (const std::size_t i : {kWeight, kBias}) {
      if (!rounds(graph, node, i) || !numbers.try_emplace(node.inputs[i], cast.inputs.size()).second) continue;
      cast.inputs.push_back(rewriter.mapped(node.inputs[i]));
      cast.attributes = CastAttributes{graph.type(node.inputs[0]).dtype};
    }
  }
  const std::vector<ValueId> rounded =
      cast.inputs.empty() ? std::vector<ValueId>{} : rewriter.graph().add_node(std::move(cast));
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      inputs.push_back(rounds(graph, node, i) ? rounded[numbers.at(input)] : rewriter.mapped(input));
    }
    rewriter.copy_node(node, std::move(inputs));
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
