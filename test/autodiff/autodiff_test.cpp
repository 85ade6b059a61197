// Tests the walk over whole graphs; test/backend/gradient_test.cpp tests the rules of single ops.
#include "autodiff/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

using Data = std::map<std::string, std::vector<double>>;

std::vector<double> numbers(std::int64_t count, double seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(seed + 1.3 * static_cast<double>(i)));
  return values;
}

// Gives every floating source of `graph` without values some values that depend on its name.
void fill(const Graph& graph, Data& data) {
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode || !is_floating(value.type.dtype) || data.contains(value.name)) continue;
    double seed = 0;
    for (const char c : value.name) seed = seed * 0.7 + static_cast<double>(c);
    data[value.name] = numbers(value.type.shape.elements(), seed);
  }
}

std::vector<double> made_by_running(const Graph& graph, const Data& data, ValueId result) {
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  for (const auto& [name, values] : data) runner.set(name, values);
  runner.run();
  return runner.made(result);
}

// Returns five-point differences of `loss` by every element of the source `name`.
std::vector<double> differences(const Graph& graph, Data data, const std::string& name, ValueId loss) {
  constexpr double kStep = 1e-3;
  std::vector<double> result;
  for (std::size_t i = 0; i < data.at(name).size(); ++i) {
    const double value = data[name][i];
    const auto at = [&](double distance) {
      data[name][i] = value + distance;
      return made_by_running(graph, data, loss).at(0);
    };
    result.push_back((8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep));
    data[name][i] = value;
  }
  return result;
}

struct Net {
  Graph graph;
  Data data;

  ValueId input(const std::string& name, Shape shape) { return graph.add_input(name, {DType::kF64, shape}); }
  ValueId parameter(const std::string& name, Shape shape) { return graph.add_parameter(name, {DType::kF64, shape}); }
  ValueId integers(const std::string& name, Shape shape, std::vector<double> values) {
    data[name] = std::move(values);
    return graph.add_input(name, {DType::kI32, shape});
  }
  // Returns the cross-entropy of `logits`, f[n,C], against labels 0, 1, … with one row ignored.
  ValueId loss(ValueId logits, ValueId rows = kNoValue) {
    const Shape shape = graph.type(logits).shape;
    std::vector<double> labels;
    for (std::int64_t row = 0; row < shape[0]; ++row)
      labels.push_back(row == 1 ? -100.0 : static_cast<double>(row % shape[1]));
    data["loss_scale"] = {0.3};
    return graph.add_node({.op = Op::kCrossEntropy,
                           .name = "loss",
                           .attributes = CrossEntropyAttributes{},
                           .inputs = {logits, integers("labels", {shape[0]}, labels), input("loss_scale", {1})},
                           .row_count = rows})[0];
  }
  // Compares every wanted gradient with differences of the loss.
  void expect_gradients(ValueId loss_value, const std::vector<ValueId>& wanted) {
    graph.mark_output(loss_value);
    fill(graph, data);
    Graph both = graph;
    const Seed seed = loss_seed(both, loss_value);
    const auto gradients = append_backward(both, {&seed, 1}, wanted);
    EXPECT_NO_THROW(verify(both));
    for (const ValueId value : wanted) {
      const std::string& name = graph.value(value).name;
      ASSERT_TRUE(gradients.contains(value)) << name;
      const std::vector<double> found = made_by_running(both, data, gradients.at(value).dense);
      const std::vector<double> expected = differences(graph, data, name, loss_value);
      ASSERT_EQ(found.size(), expected.size()) << name;
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << name << " " << i;
    }
  }
};

std::size_t count_ops(const Graph& graph, Op op) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; }));
}

TEST(Autodiff, GradientsOfAValueUsedSeveralTimesAreAdded) {
  Net net;
  const ValueId x = net.input("x", {4, 5}), weight = net.parameter("weight", {5, 5});
  const ValueId y = linear(net.graph, "y", x, weight, kNoValue, kNoValue);
  const ValueId gelu = add_single(net.graph, {.op = Op::kGelu, .name = "gelu", .inputs = {y}});
  const ValueId tanh = add_single(net.graph, {.op = Op::kTanh, .name = "tanh", .inputs = {y}});
  const ValueId product = add(net.graph, "gelu+tanh", gelu, tanh, kNoValue);
  const ValueId residual = add(net.graph, "residual", product, y, kNoValue);
  net.expect_gradients(net.loss(add(net.graph, "twice", residual, residual, kNoValue)), {x, weight});
}

TEST(Autodiff, ASharedParameterCollectsAllItsUses) {
  Net net;
  const ValueId x = net.input("x", {4, 5}), weight = net.parameter("weight", {5, 5}), bias = net.parameter("bias", {5});
  const ValueId gamma = net.parameter("gamma", {5}), beta = net.parameter("beta", {5});
  ValueId y = linear(net.graph, "first", x, weight, bias, kNoValue);
  y = layer_norm(net.graph, "first_norm", y, gamma, beta, 1e-5, kNoValue).y;
  y = linear(net.graph, "second", y, weight, bias, kNoValue);
  y = layer_norm(net.graph, "second_norm", y, gamma, beta, 1e-5, kNoValue).y;
  net.expect_gradients(net.loss(y), {x, weight, bias, gamma, beta});
}

TEST(Autodiff, AnEmbeddingTableLookedUpTwiceAddsItsDenseGradients) {
  Net net;
  const ValueId table = net.parameter("table", {6, 4});
  const ValueId ids = net.integers("ids", {3}, {5, 0, 5}), others = net.integers("others", {3}, {2, 5, 2});
  const ValueId sum = add(net.graph, "sum", embedding(net.graph, "first", table, ids, {}, kNoValue),
                          embedding(net.graph, "second", table, others, {}, kNoValue), kNoValue);
  net.expect_gradients(net.loss(sum), {table});
}

// Half of a transformer layer with a row count below the capacity, gathers and a residual around them.
TEST(Autodiff, AChainWithRowCountsReadsNoRowThatIsNotReal) {
  Net net;
  const ValueId rows = net.integers("rows", {1}, {3}), picked = net.integers("picked", {1}, {2});
  const ValueId table = net.parameter("table", {6, 4}), weight = net.parameter("weight", {4, 4});
  const ValueId x = embedding(net.graph, "x", table, net.integers("ids", {5}, {3, 1, 4}), {}, rows);
  const ValueId gamma = net.parameter("gamma", {4}), beta = net.parameter("beta", {4});
  ValueId y = layer_norm(net.graph, "norm", x, gamma, beta, 1e-5, rows).y;
  y = linear(net.graph, "dense", y, weight, kNoValue, rows);
  y = add(net.graph, "residual", y, x, rows);
  const ValueId index = net.integers("index", {3}, {2, 0}), inverse = net.integers("inverse", {5}, {1, -1, 0, -1, -1});
  y = add_single(net.graph,
                 {.op = Op::kGatherRows, .name = "picks", .inputs = {y, index, inverse}, .row_count = picked});
  net.expect_gradients(net.loss(y, picked), {table, weight, gamma, beta});
}

// gather_rows gives a gradient with every row of the capacity, linear only the real ones: their sum has the real ones.
TEST(Autodiff, ASumOfGradientsHasTheRowsOfItsValue) {
  for (const bool gather_first : {false, true}) {
    Net net;
    const ValueId rows = net.integers("rows", {1}, {3});
    const ValueId x = net.input("x", {5, 4}), weight = net.parameter("weight", {4, 4});
    const ValueId y = linear(net.graph, "y", x, weight, kNoValue, rows);
    const ValueId index = net.integers("index", {5}, {2, 0, 1});
    const ValueId inverse = net.integers("inverse", {5}, {1, 2, 0, -1, -1});
    const auto gather = [&] {
      return add_single(net.graph,
                        {.op = Op::kGatherRows, .name = "picks", .inputs = {y, index, inverse}, .row_count = rows});
    };
    const auto dense = [&] { return linear(net.graph, "dense", y, weight, kNoValue, rows); };
    const ValueId first = gather_first ? gather() : dense(), second = gather_first ? dense() : gather();
    const ValueId loss = net.loss(add(net.graph, "sum", first, second, rows), rows);
    net.data["x"] = numbers(3 * 4, 0.4);  // the rest of x is NaN
    net.expect_gradients(loss, {weight});

    Graph both = net.graph;
    const Seed seed = loss_seed(both, loss);
    const ValueId gradient = append_backward(both, {&seed, 1}, std::vector<ValueId>{y}).at(y).dense;
    const Node& sum = both.node(both.value(gradient).producer);
    EXPECT_EQ(sum.op, Op::kAdd);
    EXPECT_EQ(sum.row_count, rows) << (gather_first ? "gather first" : "dense first");
  }
}

TEST(Autodiff, WhatTheLossDoesNotDependOnHasNoGradient) {
  Net net;
  const ValueId x = net.input("x", {4, 5}), weight = net.parameter("weight", {5, 5}),
                unused = net.parameter("unused", {5, 5});
  const ValueId y = linear(net.graph, "y", x, weight, kNoValue, kNoValue);
  linear(net.graph, "dead_end", y, unused, kNoValue, kNoValue);  // reads y but does not contribute to the loss
  const ValueId loss = net.loss(y);
  Graph both = net.graph;
  const Seed seed = loss_seed(both, loss);
  const std::vector<ValueId> wanted = {weight, unused};
  const auto gradients = append_backward(both, {&seed, 1}, wanted);
  EXPECT_TRUE(gradients.contains(weight));
  EXPECT_FALSE(gradients.contains(unused));
  EXPECT_EQ(both.nodes().size(), net.graph.nodes().size() + 1);  // only the weight's gradient is added
  net.expect_gradients(loss, {weight});
}

TEST(Autodiff, OnlyWhatLeadsToAWantedValueIsDifferentiated) {
  Net net;
  const ValueId x = net.input("x", {4, 5}), frozen = net.parameter("frozen", {5, 5});
  const ValueId weight = net.parameter("weight", {5, 5}), bias = net.parameter("bias", {5});
  ValueId y = linear(net.graph, "below", x, frozen, kNoValue, kNoValue);
  y = add_single(net.graph, {.op = Op::kGelu, .name = "gelu", .inputs = {y}});
  y = linear(net.graph, "above", y, weight, bias, kNoValue);
  const ValueId loss = net.loss(y);
  Graph both = net.graph;
  const Seed seed = loss_seed(both, loss);
  append_backward(both, {&seed, 1}, std::vector<ValueId>{bias});
  EXPECT_EQ(count_ops(both, Op::kBiasGrad), 1U);
  EXPECT_EQ(both.nodes().size(), net.graph.nodes().size() + 1);
  net.expect_gradients(loss, {bias});
}

TEST(Autodiff, TwoSeedsAdd) {
  Net net;
  const ValueId x = net.input("x", {3, 4});
  const ValueId tanh = add_single(net.graph, {.op = Op::kTanh, .name = "tanh", .inputs = {x}});
  const ValueId gelu = add_single(net.graph, {.op = Op::kGelu, .name = "gelu", .inputs = {tanh}});
  const Seed of_gelu{.value = gelu, .gradient = net.input("of_gelu", {3, 4})};
  const Seed of_tanh{.value = tanh, .gradient = net.input("of_tanh", {3, 4})};
  const auto gradient = [&](const std::vector<Seed>& seeds) {
    Graph both = net.graph;
    const ValueId result = append_backward(both, seeds, std::vector<ValueId>{x}).at(x).dense;
    fill(both, net.data);
    return made_by_running(both, net.data, result);
  };
  const std::vector<double> first = gradient({of_gelu}), second = gradient({of_tanh}),
                            both = gradient({of_gelu, of_tanh});
  ASSERT_EQ(both.size(), 12U);
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], first[i] + second[i], 1e-15);
}

TEST(Autodiff, AnOpWithoutARuleIsNamed) {
  Net net;
  const ValueId pixels = net.input("pixels", {1, 3, 4, 4}), weight = net.parameter("weight", {5, 12});
  const ValueId patches =
      add_single(net.graph, {.op = Op::kPatchify, .name = "cut", .attributes = PatchAttributes{2}, .inputs = {pixels}});
  const ValueId loss = net.loss(linear(net.graph, "y", patches, weight, kNoValue, kNoValue));
  Graph both = net.graph;
  const Seed seed = loss_seed(both, loss);
  try {
    append_backward(both, {&seed, 1}, std::vector<ValueId>{pixels});
    FAIL() << "patchify has no gradient rule";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("patchify has no gradient rule (node 'cut')"), std::string::npos);
  }
  net.expect_gradients(loss, {weight});
}

// DoRA's map: the norms are computed from `a` and `b`, and gradients are those of a map whose norms are given numbers.
TEST(Autodiff, RowNormsCountAsAConstant) {
  const auto build = [](Net& net, bool computes) {
    const ValueId x = net.input("x", {4, 5}), weight = net.input("weight", {3, 5});
    const ValueId a = net.parameter("a", {2, 5}), b = net.parameter("b", {3, 2});
    const ValueId magnitude = net.parameter("magnitude", {3});
    const ValueId norms = computes ? inverse_row_norms(net.graph, "norms", weight, a, b, 0.7) : net.input("norms", {3});
    const ValueId low = scale(net.graph, "low", linear(net.graph, "xa", x, a, kNoValue, kNoValue), 0.7, kNoValue);
    ValueId y = linear_add(net.graph, "xab", low, b, linear(net.graph, "xw", x, weight, kNoValue, kNoValue), kNoValue);
    y = affine(net.graph, "y", y, multiply(net.graph, "factors", magnitude, norms, kNoValue),
               net.parameter("bias", {3}), kNoValue);
    return std::pair(net.loss(y), std::vector<ValueId>{x, a, b, magnitude, net.graph.find_source("bias")});
  };
  Net computed, given;
  const auto [loss, wanted] = build(computed, true);
  const auto [other_loss, other_wanted] = build(given, false);
  computed.graph.mark_output(loss);
  fill(computed.graph, computed.data);
  Graph both = computed.graph;
  const Seed seed = loss_seed(both, loss);
  const auto gradients = append_backward(both, {&seed, 1}, wanted);
  EXPECT_NO_THROW(verify(both));
  ASSERT_EQ(computed.graph.nodes().front().op, Op::kInverseRowNorms);
  const ValueId norm_values = computed.graph.nodes().front().outputs[0];
  computed.graph.mark_output(norm_values);
  given.data = computed.data;
  given.data["norms"] = made_by_running(computed.graph, computed.data, norm_values);
  given.graph.mark_output(other_loss);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = computed.graph.value(wanted[i]).name;
    const std::vector<double> found = made_by_running(both, computed.data, gradients.at(wanted[i]).dense);
    const std::vector<double> expected = differences(given.graph, given.data, name, other_loss);
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (std::size_t e = 0; e < found.size(); ++e) EXPECT_NEAR(found[e], expected[e], 1e-9) << name << " " << e;
  }
  EXPECT_EQ(count_ops(both, Op::kInverseRowNorms), 1U);
}

// A language model's tied table has one gradient, never two and their sum.
TEST(Autodiff, ALookUpIsAddedToWhatTheHeadGives) {
  Net net;
  const ValueId table = net.parameter("table", {6, 4});
  const ValueId ids = net.integers("ids", {5}, {5, 0, 5, 2, 5});
  for (const bool by_rows : {false, true}) {
    Net tied = net;
    const ValueId x = embedding(tied.graph, "x", table, ids, {.row_gradient = by_rows}, kNoValue);
    const ValueId loss = tied.loss(linear(tied.graph, "head", x, table, kNoValue, kNoValue));
    tied.expect_gradients(loss, {table});
    Graph both = tied.graph;
    const Seed seed = loss_seed(both, loss);
    append_backward(both, {&seed, 1}, std::vector<ValueId>{table});
    EXPECT_EQ(count_ops(both, Op::kAdd), 0U);
    const Node& last = both.nodes().back();
    EXPECT_EQ(last.op, Op::kEmbeddingGrad);
    ASSERT_EQ(last.inputs.size(), 3U);
    EXPECT_EQ(both.node(both.value(last.inputs[2]).producer).op, Op::kLinearWeightGrad);
  }
}

TEST(Autodiff, ATableWithRowGradientsIsLookedUpOnce) {
  Net net;
  const ValueId table = net.parameter("table", {6, 4});
  const ValueId ids = net.integers("ids", {3}, {5, 0, 5});
  const EmbeddingAttributes by_rows{.row_gradient = true};
  const ValueId sum = add(net.graph, "sum", embedding(net.graph, "first", table, ids, by_rows, kNoValue),
                          embedding(net.graph, "second", table, ids, by_rows, kNoValue), kNoValue);
  const Seed seed = loss_seed(net.graph, net.loss(sum));
  EXPECT_THROW(append_backward(net.graph, {&seed, 1}, std::vector<ValueId>{table}), InternalError);
}

TEST(Autodiff, TheLossSeedIsForCrossEntropiesOnly) {
  Net net;
  const ValueId x = net.input("x", {3, 4});
  const ValueId y = add(net.graph, "y", x, x, kNoValue);
  EXPECT_THROW(loss_seed(net.graph, y), InternalError);
  EXPECT_THROW(loss_seed(net.graph, x), InternalError);
}

}  // namespace
}  // namespace plimsoll::test
