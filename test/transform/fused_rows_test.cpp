#include "transform/fused_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/autodiff.h"
#include "graph/build.h"
#include "graph/layer_norm_form.h"
#include "transform/reference_outputs.h"
#include "transform/rounded_parameters.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kRows = 7, kReal = 5, kWidth = 12;

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

// A sublayer as encoders have it: two maps of the same rows, their product, dropout, residual and layer norm, and a map
// to a loss. `p` 0: without dropout. `shared`: the sum is read once more.
struct Sublayer {
  explicit Sublayer(double p, bool shared = false, DType dtype = DType::kF32) {
    rows = graph.add_input("rows", {DType::kI32, {1}});
    keys = graph.add_input("row_keys", {DType::kI32, {kRows, 2}});
    key = graph.add_input("dropout_key", {DType::kI32, {2}});
    const ValueId x = graph.add_input("x", {dtype, {kRows, kWidth}});
    const auto weight = [&](const char* name, Shape shape) {
      trained.push_back(graph.add_parameter(name, {shape.rank() == 1 ? wide(dtype) : dtype, shape}));
      return trained.back();
    };
    const ValueId begin = linear(graph, "begin", x, weight("begin.w", {kWidth, kWidth}), kNoValue, rows);
    const ValueId a = linear(graph, "a", begin, weight("a.w", {kWidth, kWidth}), weight("a.b", {kWidth}), rows);
    const ValueId b = linear(graph, "b", begin, weight("b.w", {kWidth, kWidth}), weight("b.b", {kWidth}), rows);
    ValueId y = multiply(graph, "product", a, b, rows);
    y = linear(graph, "dense", y, weight("dense.w", {kWidth, kWidth}), weight("dense.b", {kWidth}), rows);
    y = dropout(graph, "dropout", y, keys, key, {.p = p, .site = 2}, rows);
    const ValueId sum = add(graph, "sum", y, begin, rows);
    ValueId out = layer_norm(graph, "norm", sum, weight("gamma", {kWidth}), weight("beta", {kWidth}), 1e-5, rows).y;
    if (shared) out = add(graph, "again", out, sum, rows);
    logits = cast(graph, "logits", out, wide(dtype), rows);
    const ValueId labels = graph.add_input("labels", {DType::kI32, {kRows}});
    const ValueId scale = graph.add_input("loss_scale", {wide(dtype), {1}});
    loss = graph.add_node({.op = Op::kCrossEntropy,
                           .name = "loss",
                           .attributes = CrossEntropyAttributes{},
                           .inputs = {logits, labels, scale},
                           .row_count = rows})[0];
    graph.mark_output(loss);
  }

  // With the gradients of all parameters as outputs.
  Graph with_backward() const {
    Graph both = graph;
    const Seed seed = loss_seed(both, loss);
    for (const auto& [parameter, gradient] : append_backward(both, {&seed, 1}, trained)) {
      both.mark_output(gradient.dense);
    }
    return both;
  }

  Graph graph;
  ValueId rows, keys, key, logits, loss;
  std::vector<ValueId> trained{};
};

// What the outputs of a graph made of a Sublayer hold; values in double are the same whatever is fused.
std::vector<std::vector<double>> run(const Graph& graph) {
  return reference_outputs(graph, [](const Value& source, std::vector<double>& values) {
    if (source.name == "rows") values = {kReal};
    if (source.name == "loss_scale") values = {1};
    if (source.name == "labels") std::ranges::for_each(values, [](double& label) { label = std::fmod(label, kWidth); });
  });
}

void expect_same(const std::vector<std::vector<double>>& found, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (std::size_t e = 0; e < found[i].size(); ++e) EXPECT_NEAR(found[i][e], expected[i][e], 1e-10) << i << ", " << e;
  }
}

TEST(FusedRows, ALayerNormTakesTheSumAndTheDropoutBeforeIt) {
  for (const double p : {0.0, 0.4}) {
    Sublayer plain(p, false, DType::kF64), fused(p, false, DType::kF64);
    std::vector<ValueId> values = fused.trained;
    values.insert(values.end(), {fused.loss, fused.logits, kNoValue});
    fused.graph = fuse_residual_norms(fused.graph, values);
    EXPECT_EQ(values.back(), kNoValue);
    fused.logits = values[values.size() - 2];
    fused.loss = values[values.size() - 3];
    values.resize(fused.trained.size());
    fused.trained = values;
    EXPECT_EQ(fused.graph.value(fused.logits).name, plain.graph.value(plain.logits).name);
    EXPECT_EQ(count(fused.graph, Op::kAdd), 0);
    EXPECT_EQ(count(fused.graph, Op::kDropout), 0);
    const auto norm = std::ranges::find(fused.graph.nodes(), Op::kLayerNorm, &Node::op);
    ASSERT_NE(norm, fused.graph.nodes().end());
    EXPECT_EQ(norm->name, "norm");
    EXPECT_TRUE(layer_norm_form(*norm).has_residual);
    EXPECT_EQ(layer_norm_form(*norm).drops, p > 0);
    expect_same(run(fused.graph), run(plain.graph));
    expect_same(run(fused.with_backward()), run(plain.with_backward()));
  }
}

TEST(FusedRows, WhatOthersReadStays) {
  Sublayer shared(0.4, true);
  std::vector<ValueId> values = {shared.loss};
  EXPECT_EQ(count(fuse_residual_norms(shared.graph, values), Op::kAdd), 2);
  Sublayer watched(0.4);
  const ValueId dropped = watched.graph.nodes()[5].outputs[0];
  ASSERT_EQ(watched.graph.node(watched.graph.value(dropped).producer).op, Op::kDropout);
  values = {dropped};  // somebody wants to see it
  const Graph fused = fuse_residual_norms(watched.graph, values);
  EXPECT_EQ(count(fused, Op::kDropout), 1);
  EXPECT_EQ(count(fused, Op::kAdd), 0);
  EXPECT_EQ(fused.value(values.back()).name, "dropout");
}

TEST(FusedRows, ProductsAddTheGradientsBeforeThem) {
  const Graph plain = Sublayer(0.4, false, DType::kF64).with_backward();
  const Graph fused = fuse_gradient_sums(plain, [](const Graph&, const Node&) { return true; });
  const auto adds = [](const Node& node) { return node.op == Op::kLinearInputGrad && node.inputs.size() == 3; };
  EXPECT_EQ(std::ranges::count_if(fused.nodes(), adds), 2);  // of two maps and a residual, one begins the sum
  EXPECT_EQ(count(fused, Op::kAdd), count(plain, Op::kAdd) - 2);
  expect_same(run(fused), run(plain));
  const Graph same = fuse_gradient_sums(plain, [](const Graph&, const Node&) { return false; });
  EXPECT_EQ(same.nodes().size(), plain.nodes().size());
}

TEST(FusedRows, ABiasHasItsGradientFromTheNodeBehindItsMap) {
  Sublayer sublayer(0.4);
  std::vector<ValueId> values = sublayer.trained;
  values.push_back(sublayer.loss);
  sublayer.graph = fuse_residual_norms(sublayer.graph, values);
  sublayer.loss = values.back();
  values.pop_back();
  sublayer.trained = values;
  const Graph graph = sublayer.with_backward();
  // dense's by layer_norm_grad; those of a and b, whose reader makes no sums, by themselves.
  EXPECT_EQ(count(graph, Op::kBiasGrad), 2);
  const auto norm = std::ranges::find(graph.nodes(), Op::kLayerNormGrad, &Node::op);
  ASSERT_NE(norm, graph.nodes().end());
  EXPECT_TRUE(layer_norm_form(*norm).column_sums);
}

// A dropout before a cast, a dropout behind one, and a dropout between two of which it takes the first.
TEST(FusedRows, ADropoutCastsWhatACastBesideItWould) {
  Graph plain;
  const ValueId rows = plain.add_input("rows", {DType::kI32, {1}});
  const ValueId keys = plain.add_input("row_keys", {DType::kI32, {kRows, 2}});
  const ValueId key = plain.add_input("dropout_key", {DType::kI32, {2}});
  const auto x = [&](const char* name, DType dtype) { return plain.add_input(name, {dtype, {kRows, kWidth}}); };
  const auto drop = [&](const char* name, ValueId of) {
    return dropout(plain, name, of, keys, key, {.p = 0.4, .site = 3}, rows);
  };
  const ValueId a = cast(plain, "a.cast", drop("a", x("xa", DType::kF32)), DType::kBF16, rows);
  const ValueId b = drop("b", cast(plain, "b.cast", x("xb", DType::kBF16), DType::kF32, rows));
  const ValueId c = cast(plain, "c.half", x("xc", DType::kBF16), DType::kF32, rows);
  const ValueId both = cast(plain, "c.back", drop("c", c), DType::kBF16, rows);
  const ValueId other = cast(plain, "d.cast", drop("d", x("xd", DType::kF32)), DType::kBF16, kNoValue);
  std::vector<ValueId> values = {a, b, both, other, kNoValue};
  for (const ValueId value : {a, b, both}) plain.mark_output(value);
  const Graph fused = fuse_dropout_casts(plain, values);
  EXPECT_EQ(count(fused, Op::kDropout), 4);
  EXPECT_EQ(count(fused, Op::kCast), 2);  // c's second, and d's, which counts other rows
  EXPECT_EQ(fused.value(values[0]).name, "a.cast");
  EXPECT_EQ(fused.value(values[1]).name, "b");
  EXPECT_EQ(fused.type(values[0]).dtype, DType::kBF16);
  EXPECT_EQ(fused.type(values[1]).dtype, DType::kF32);
  expect_same(run(fused), run(plain));
}

TEST(RoundedParameters, OneCastServesAllMapsOfHalves) {
  const Graph plain = Sublayer(0, false, DType::kBF16).with_backward();
  const Graph rounded = round_parameters(plain);
  EXPECT_NO_THROW(verify(rounded));
  ASSERT_EQ(rounded.nodes().size(), plain.nodes().size() + 1);
  const Node& cast = rounded.nodes().front();
  EXPECT_EQ(cast.op, Op::kCast);
  EXPECT_EQ(cast.inputs.size(), 3U);
  for (const Node& node : rounded.nodes()) {
    if (node.op != Op::kLinear || node.inputs.size() < 3) continue;
    EXPECT_EQ(rounded.type(node.inputs[2]).dtype, DType::kBF16) << node.name;
  }
  const Graph single = Sublayer(0).with_backward();
  EXPECT_EQ(round_parameters(single).nodes().size(), single.nodes().size());
}

TEST(RoundedParameters, WeightsOfAdaptersAreRoundedOnceAndWideOnesStay) {
  Graph graph;
  const auto parameter = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return graph.add_parameter(name, {DType::kF32, {rows, columns}});
  };
  const ValueId x = graph.add_input("x", {DType::kBF16, {5, 96}});
  const ValueId down = parameter("down", 4, 96), up = parameter("up", 80, 4), wide = parameter("wide", 80, 96);
  const ValueId y = linear(graph, "y", x, wide, kNoValue, kNoValue);
  graph.mark_output(linear_add(graph, "sum", linear(graph, "rank", x, down, kNoValue, kNoValue), up, y, kNoValue));
  const Graph rounded = round_parameters(graph);
  EXPECT_NO_THROW(verify(rounded));
  ASSERT_EQ(rounded.nodes().size(), graph.nodes().size() + 1);
  EXPECT_EQ(rounded.nodes().front().inputs, (std::vector<ValueId>{down, up}));
  for (const Node& node : rounded.nodes()) {
    if (node.op == Op::kCast) continue;
    EXPECT_EQ(rounded.type(node.inputs[1]).dtype, node.name == "y" ? DType::kF32 : DType::kBF16) << node.name;
  }
}

}  // namespace
}  // namespace plimsoll::test
