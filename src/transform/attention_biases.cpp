#include "transform/attention_biases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "graph/attention_form.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

// Returns the kAttentionBias whose result the node may read; nothing if the node has no biases, or made ones already.
std::optional<Node> bias_node(const Graph& graph, const Node& node, std::size_t number) {
  if (node.op != Op::kAttention && node.op != Op::kAttentionGrad) return std::nullopt;
  const AttentionForm form = attention_form(node);
  if (form.tables() == 0 || form.made_biases) return std::nullopt;
  const AttentionAttributes& attributes = attention_attributes(node);
  Node biases{
      .op = Op::kAttentionBias,
      .name = fmt::format("attention_bias.{}", number),
      .attributes = AttentionBiasAttributes{.attention = {.heads = attributes.heads,
                                                          .position_bias = attributes.position_bias,
                                                          .spatial_bias = attributes.spatial_bias,
                                                          .max_position_distance = attributes.max_position_distance,
                                                          .max_spatial_distance = attributes.max_spatial_distance,
                                                          .longest_sample = attributes.longest_sample},
                                            .to = graph.type(node.inputs[form.q()]).dtype},
      .inputs = {node.inputs[form.sample_offsets()], node.inputs[form.key_mask()]},
      .row_count = node.row_count};
  biases.inputs.insert(biases.inputs.end(), node.inputs.begin() + static_cast<std::ptrdiff_t>(form.coordinates()),
                       node.inputs.begin() + static_cast<std::ptrdiff_t>(form.biases()));
  const bool are_sources =
      std::ranges::all_of(biases.inputs, [&](ValueId input) { return graph.value(input).producer == kNoNode; });
  return are_sources ? std::optional(std::move(biases)) : std::nullopt;
}

// A kAttentionBias, its readers, and its output once the first of them is copied.
struct Biases {
  Node node;
  int readers = 0;
  ValueId made = kNoValue;
};

}  // namespace

Graph keep_attention_biases(const Graph& graph) {
  std::vector<Biases> all;
  std::map<const Node*, std::size_t> of_node;
  for (const Node& node : graph.nodes()) {
    std::optional<Node> biases = bias_node(graph, node, all.size());
    if (!biases) continue;
    const auto known = std::ranges::find_if(all, [&](const Biases& each) {
      return each.node.inputs == biases->inputs && each.node.attributes == biases->attributes &&
             each.node.row_count == biases->row_count;
    });
    of_node.emplace(&node, static_cast<std::size_t>(known - all.begin()));
    if (known == all.end()) all.push_back({.node = std::move(*biases)});
    ++all[of_node.at(&node)].readers;
  }
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  for (const Node& node : graph.nodes()) {
    const auto position = of_node.find(&node);
    if (position == of_node.end() || all[position->second].readers < 2) {
      rewriter.copy_node(node);
      continue;
    }
    Biases& biases = all[position->second];
    if (biases.made == kNoValue) {
      Node first = biases.node;
      for (ValueId& input : first.inputs) input = rewriter.mapped(input);
      if (first.row_count != kNoValue) first.row_count = rewriter.mapped(first.row_count);
      first.phase = node.phase;
      biases.made = rewriter.graph().add_node(std::move(first))[0];
    }
    Node reader = node;
    std::get<AttentionAttributes>(reader.attributes).made_biases = true;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(rewriter.mapped(input));
    inputs.push_back(biases.made);
    rewriter.copy_node(reader, std::move(inputs));
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
