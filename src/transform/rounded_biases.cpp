#include "transform/rounded_biases.h"

#include <map>
#include <vector>

#include "transform/rewriter.h"

namespace plimsoll {
namespace {

constexpr std::size_t kBias = 2;  // among a map's inputs

// The bias that a cast would make of the parameter that the node reads, or nothing.
ValueId wide_bias(const Graph& graph, const Node& node) {
  if (node.op != Op::kLinear || node.inputs.size() <= kBias) return kNoValue;
  const DType rows = graph.type(node.inputs[0]).dtype;
  const Value& bias = graph.value(node.inputs[kBias]);
  const bool rounds = is_half(rows) && bias.type.dtype == wide(rows);
  return rounds && bias.producer == kNoNode && bias.role == Role::kParameter ? node.inputs[kBias] : kNoValue;
}

}  // namespace

Graph round_biases(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  std::map<ValueId, std::size_t> numbers;  // by the old bias
  Node cast{.op = Op::kCast, .name = "rounded_biases"};
  for (const Node& node : graph.nodes()) {
    const ValueId bias = wide_bias(graph, node);
    if (bias == kNoValue || !numbers.try_emplace(bias, cast.inputs.size()).second) continue;
    cast.inputs.push_back(rewriter.mapped(bias));
    cast.attributes = CastAttributes{graph.type(node.inputs[0]).dtype};
  }
  const std::vector<ValueId> rounded =
      cast.inputs.empty() ? std::vector<ValueId>{} : rewriter.graph().add_node(std::move(cast));
  for (const Node& node : graph.nodes()) {
    const ValueId bias = wide_bias(graph, node);
    if (bias == kNoValue) {
      rewriter.copy_node(node);
      continue;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input == bias ? rounded[numbers.at(bias)] : rewriter.mapped(input));
    }
    rewriter.copy_node(node, std::move(inputs));
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
