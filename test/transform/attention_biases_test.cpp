#include "transform/attention_biases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/autodiff.h"
#include "graph/attention_form.h"
#include "graph/build.h"
#include "transform/reference_outputs.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kRows = 11, kHeads = 2, kWidth = 12;

// Layers of attention, each of the sum before it, and the gradients of the first query and of the tables.
struct Layers {
  explicit Layers(int layers, bool backward) {
    const auto integers = [&](const char* name, Shape shape) { return graph.add_input(name, {DType::kI32, shape}); };
    const auto table = [&](const char* name, std::int64_t bins) {
      return graph.add_parameter(name, {DType::kF32, {kHeads, bins}});
    };
    const ValueId rows = integers("rows", {1});
    const AttentionContext context{.sample_offsets = integers("sample_offsets", {3}),
                                   .key_mask = integers("key_mask", {kRows}),
                                   .row_keys = integers("row_keys", {kRows, 2}),
                                   .dropout_key = integers("dropout_key", {2}),
                                   .relative_coordinates = integers("relative_coordinates", {kRows, 3}),
                                   .position_table = table("position", 8),
                                   .x_table = table("x_table", 8),
                                   .y_table = table("y_table", 8)};
    const ValueId x = graph.add_parameter("x", {DType::kF32, {kRows, kWidth}});
    ValueId y = x;
    for (int layer = 0; layer < layers; ++layer) {
      const AttentionAttributes attributes{.heads = kHeads, .site = static_cast<std::uint32_t>(layer)};
      y = attention(graph, "attention" + std::to_string(layer), y, y, y, context, attributes, rows);
    }
    const ValueId labels = integers("labels", {kRows}), scale = graph.add_input("loss_scale", {DType::kF32, {1}});
    const ValueId loss = graph.add_node({.op = Op::kCrossEntropy,
                                         .name = "loss",
                                         .attributes = CrossEntropyAttributes{},
                                         .inputs = {y, labels, scale},
                                         .row_count = rows})[0];
    graph.mark_output(loss);
    if (!backward) return;
    const Seed seed = loss_seed(graph, loss);
    const ValueId wanted[] = {x, context.position_table, context.x_table, context.y_table};
    for (const auto& [parameter, gradient] : append_backward(graph, {&seed, 1}, wanted)) {
      graph.mark_output(gradient.dense);
    }
  }

  Graph graph;
};

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

std::vector<std::vector<double>> run(const Graph& graph) {
  return reference_outputs(graph, [](const Value& source, std::vector<double>& values) {
    if (source.type.dtype == DType::kI32) {
      std::ranges::for_each(values, [](double& value) { value = std::fmod(value, kWidth); });
    }
    if (source.name == "rows") values = {9};
    if (source.name == "sample_offsets") values = {0, 4, 9};
  });
}

TEST(AttentionBiases, OneNodeMakesThoseOfAllLayersAndTheirGradients) {
  const Graph plain = Layers(3, true).graph, kept = keep_attention_biases(plain);
  EXPECT_EQ(count(kept, Op::kAttentionBias), 1);
  EXPECT_EQ(kept.nodes().size(), plain.nodes().size() + 1);
  const auto made = std::ranges::find(kept.nodes(), Op::kAttentionBias, &Node::op);
  for (const Node& node : kept.nodes()) {
    if (node.op != Op::kAttention && node.op != Op::kAttentionGrad) continue;
    EXPECT_TRUE(attention_form(node).made_biases) << node.name;
    EXPECT_EQ(node.inputs.at(attention_form(node).biases()), made->outputs[0]) << node.name;
  }
  EXPECT_EQ(run(kept), run(plain));
  EXPECT_EQ(keep_attention_biases(kept).nodes().size(), kept.nodes().size());
}

TEST(AttentionBiases, ASingleReaderLooksThemUpItself) {
  const Graph single = Layers(1, false).graph;
  EXPECT_EQ(count(keep_attention_biases(single), Op::kAttentionBias), 0);
  EXPECT_EQ(count(keep_attention_biases(Layers(1, true).graph), Op::kAttentionBias), 1);
}

}  // namespace
}  // namespace plimsoll::test
