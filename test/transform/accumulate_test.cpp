// Compares sums of accumulate_gradients over micro-batches with the gradients of each, in double.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "support/expect_error.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

constexpr double kTolerance = 1e-14;  // values are about 1, sums a few

std::size_t count_ops(const Graph& graph, Op op) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; }));
}

std::map<std::string, std::vector<double>> gradients_of(const SmallNet& net, GraphRunner& runner, const Data& batch) {
  set_all(runner, batch);
  runner.run();
  std::map<std::string, std::vector<double>> result;
  for (const auto& [parameter, gradient] : net.gradients) {
    result[net.graph.value(parameter).name] = dense_gradient(net.graph, runner, parameter, gradient);
  }
  return result;
}

struct AccumulatingNet : SmallNet {
  explicit AccumulatingNet(std::int64_t row_capacity) : SmallNet(DType::kF64) {
    graph = accumulate_gradients(graph, row_capacity, gradients);
  }
};

void expect_near(const std::map<std::string, std::vector<double>>& found,
                 const std::map<std::string, std::vector<double>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_EQ(found.at(name).size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(found.at(name)[i], values[i], kTolerance) << name << " " << i;
    }
  }
}

TEST(AccumulateGradients, SumsMicroBatchesAndForgetsThem) {
  ReferenceBackend backend;
  const SmallNet net(DType::kF64);
  GraphRunner alone(net.graph, backend);
  set_all(alone, net.weights());
  const auto first = gradients_of(net, alone, SmallNet::batch(0));
  const auto second = gradients_of(net, alone, SmallNet::batch(1));
  auto both = first;
  for (auto& [name, values] : both) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += second.at(name)[i];
  }
  ASSERT_EQ(both.size(), 11U);

  const AccumulatingNet summing(6);
  verify(summing.graph);
  GraphRunner runner(summing.graph, backend);
  set_all(runner, net.weights());
  for (const Value& value : summing.graph.values()) {
    if (value.producer == kNoNode && value.role == Role::kState) runner.set(value.name, {});  // not a number
  }
  runner.set("keep_gradients", std::vector<double>{0});
  expect_near(gradients_of(summing, runner, SmallNet::batch(0)), first);
  runner.set("keep_gradients", std::vector<double>{1});
  expect_near(gradients_of(summing, runner, SmallNet::batch(1)), both);
  runner.set("keep_gradients", std::vector<double>{0});
  expect_near(gradients_of(summing, runner, SmallNet::batch(1)), second);
}

TEST(AccumulateGradients, SumsLieInNamedStates) {
  const AccumulatingNet net(4);
  const auto state = [&](const std::string& name) {
    const ValueId value = net.graph.find_source(name);
    EXPECT_NE(value, kNoValue) << name;
    EXPECT_EQ(net.graph.value(value).role, Role::kState) << name;
    return net.graph.type(value);
  };
  EXPECT_EQ(state("expand.weight.gradient"), (TensorType{DType::kF64, {12, 8}}));
  EXPECT_EQ(state("first.LayerNorm.bias.gradient"), (TensorType{DType::kF64, {8}}));
  EXPECT_EQ(state("table.weight.gradient_ids"), (TensorType{DType::kI32, {4}}));
  EXPECT_EQ(state("table.weight.gradient_count"), (TensorType{DType::kI32, {1}}));
  EXPECT_EQ(state("table.weight.gradient_rows"), (TensorType{DType::kF64, {4, 8}}));
  EXPECT_EQ(net.graph.find_source("table.weight.gradient"), kNoValue);
  ASSERT_EQ(net.gradients.size(), 11U);
  for (const auto& [parameter, gradient] : net.gradients) {
    EXPECT_EQ(net.graph.value(parameter).role, Role::kParameter);
    EXPECT_EQ(gradient.by_rows(), net.graph.value(parameter).name == "table.weight");
    const ValueId sum = gradient.by_rows() ? gradient.rows : gradient.dense;
    EXPECT_EQ(net.graph.value(sum).role, Role::kState) << net.graph.value(sum).name;
    EXPECT_TRUE(net.graph.value(sum).name.starts_with(net.graph.value(parameter).name + ".gradient"));
  }
}

TEST(AccumulateGradients, NoMoreRowsThanTheTableHas) {
  const AccumulatingNet net(1000);
  const ValueId rows = net.graph.find_source("table.weight.gradient_rows");
  EXPECT_EQ(net.graph.type(rows).shape, (Shape{SmallNet::kTableRows, SmallNet::kWidth}));
}

TEST(AccumulateGradients, AWeightsSumIsMadeInsideItsProduct) {
  const AccumulatingNet net(6);
  for (const Node& node : net.graph.nodes()) {
    if (node.op == Op::kLinearWeightGrad) {
      EXPECT_EQ(node.inputs.size(), 4U) << node.name;
    }
  }
  EXPECT_EQ(count_ops(net.graph, Op::kLinearWeightGrad), 3U);
  EXPECT_EQ(count_ops(net.graph, Op::kAccumulate), 7U);  // three biases and two layer norms
  EXPECT_EQ(count_ops(net.graph, Op::kMergeRowGrads), 1U);
}

// The net above does not have these: a weight that two layers share, and two parameters with one gradient.
TEST(AccumulateGradients, SharedWeightsAndSharedGradients) {
  Graph graph;
  const TensorType type{DType::kF64, {3, 3}};
  const ValueId a = graph.add_parameter("a", type), b = graph.add_parameter("b", type);
  const ValueId weight = graph.add_parameter("weight", type);
  ValueId y = add(graph, "sum", a, b, kNoValue);
  y = linear(graph, "once", y, weight, kNoValue, kNoValue);
  y = linear(graph, "twice", y, weight, kNoValue, kNoValue);
  const ValueId labels = graph.add_input("labels", {DType::kI32, {3}});
  const ValueId scale = graph.add_input("scale", {DType::kF64, {1}});
  const ValueId loss = graph.add_node({.op = Op::kCrossEntropy,
                                       .name = "loss",
                                       .attributes = CrossEntropyAttributes{},
                                       .inputs = {y, labels, scale}})[0];
  const Seed seed = loss_seed(graph, loss);
  Gradients gradients = append_backward(graph, {&seed, 1}, std::vector<ValueId>{a, b, weight});
  ASSERT_EQ(gradients.at(a).dense, gradients.at(b).dense);
  const Graph summing = accumulate_gradients(graph, 1, gradients);
  verify(summing);

  ReferenceBackend backend;
  GraphRunner runner(summing, backend);
  set_all(runner, {{"a", numbers(9, 1)},
                   {"b", numbers(9, 2)},
                   {"weight", numbers(9, 3)},
                   {"labels", {0, 2, 1}},
                   {"scale", {1}},
                   {"keep_gradients", {0}}});
  const auto sums = [&] {
    runner.run();
    std::vector<std::vector<double>> result;
    for (const char* name : {"a", "b", "weight"}) {
      result.push_back(runner.made(gradients.at(summing.find_source(name)).dense));
    }
    return result;
  };
  const auto once = sums();
  EXPECT_EQ(once[0], once[1]);
  runner.set("keep_gradients", std::vector<double>{1});
  const auto twice = sums();
  for (std::size_t p = 0; p < 3; ++p) {
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_NE(once[p][i], 0.0);
      EXPECT_NEAR(twice[p][i], 2 * once[p][i], kTolerance) << p << " " << i;
    }
  }
}

// A table that is the head, too: both of its gradients are added to the sum where it lies.
TEST(AccumulateGradients, ATiedTablesSumIsMadeInPlace) {
  Graph graph;
  const ValueId table = graph.add_parameter("table", {DType::kF64, {6, 3}});
  const ValueId ids = graph.add_input("ids", {DType::kI32, {4}});
  const ValueId x = embedding(graph, "x", table, ids, {.row_gradient = true}, kNoValue);
  const ValueId loss = graph.add_node(
      {.op = Op::kCrossEntropy,
       .name = "loss",
       .attributes = CrossEntropyAttributes{},
       .inputs = {linear(graph, "head", x, table, kNoValue, kNoValue), graph.add_input("labels", {DType::kI32, {4}}),
                  graph.add_input("scale", {DType::kF64, {1}})}})[0];
  const Seed seed = loss_seed(graph, loss);
  Gradients gradients = append_backward(graph, {&seed, 1}, std::vector<ValueId>{table});
  const ValueId plain = gradients.at(table).dense;
  const Graph alone = graph;
  const Graph summing = accumulate_gradients(graph, 1, gradients);
  verify(summing);
  EXPECT_EQ(count_ops(summing, Op::kAccumulate), 0U);

  ReferenceBackend backend;
  const std::map<std::string, std::vector<double>> values = {
      {"table", numbers(18, 1)}, {"ids", {5, 0, 5, 2}}, {"labels", {0, 2, 1, 5}}, {"scale", {1}}};
  GraphRunner once(alone, backend), runner(summing, backend);
  set_all(once, values);
  set_all(runner, values);
  once.run();
  for (const double keep : {0.0, 1.0, 0.0}) {
    runner.set("keep_gradients", std::vector<double>{keep});
    runner.run();
    const std::vector<double> sum = runner.made(gradients.at(summing.find_source("table")).dense);
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], (1 + keep) * once.made(plain)[i], kTolerance) << i;
  }
}

// Half a batch's loss twice is the batch's, so the update from the sum is the same.
TEST(AccumulateGradients, EveryOptimizerUpdatesFromTheSum) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor}) {
    SCOPED_TRACE(optimizer_name(kind));
    const OptimizerOptions options{.kind = kind, .coded_from = 16, .adamw = {.weight_decay = 0.1}, .decays = {}};
    ReferenceBackend backend;
    const auto prepare = [](GraphRunner& runner, const Graph& graph, double scale) {
      set_all(runner, SmallNet(DType::kF64, false).weights());
      set_all(runner, SmallNet::batch(0));
      runner.set("loss_scale", std::vector<double>{scale});
      for (const Value& value : graph.values()) {
        if (value.producer != kNoNode || value.role != Role::kState ||
            value.name.find(".gradient") != std::string::npos) {
          continue;
        }
        runner.set(value.name, std::vector<double>(static_cast<std::size_t>(value.type.shape.elements()), 0.0));
      }
      if (graph.find_source(kStepInput) == kNoValue) return;
      set_all(runner, {{kMaxGradNormInput, {0.05}}, {kLearningRateInput, {0.01}}, {kStepInput, {1}}});
    };
    SmallNet whole(DType::kF64);
    append_optimizer(whole.graph, whole.gradients, options);
    GraphRunner expected(whole.graph, backend);
    prepare(expected, whole.graph, 0.25);
    expected.run();

    const AccumulatingNet first(8);
    AccumulatingNet last(8);
    append_optimizer(last.graph, last.gradients, options);
    GraphRunner summing(first.graph, backend), updating(last.graph, backend);
    prepare(summing, first.graph, 0.125);
    summing.set(kKeepGradientsInput, std::vector<double>{0});
    summing.run();
    prepare(updating, last.graph, 0.125);
    updating.set(kKeepGradientsInput, std::vector<double>{1});
    int updated = 0;
    for (const Value& value : first.graph.values()) {
      if (value.producer == kNoNode && value.role == Role::kState) {
        updating.set(value.name, summing.get(first.graph.find_source(value.name)));
      }
    }
    updating.run();
    for (const Value& value : whole.graph.values()) {
      if (!is_persistent(value.role) || value.producer == kNoNode) continue;
      expect_near({{value.name, updating.made(value.name)}}, {{value.name, expected.made(value.name)}});
      ++updated;
    }
    EXPECT_GT(updated, 20);
  }
}

TEST(AccumulateGradients, AGradientThatNoNodeMakesIsRefused) {
  Graph graph;
  const ValueId w = graph.add_parameter("w", {DType::kF64, {3}}), given = graph.add_input("given", {DType::kF64, {3}});
  Gradients gradients = {{w, {.dense = given}}};
  expect_error<InternalError>([&] { accumulate_gradients(graph, 1, gradients); }, {"made by nodes"});
}

}  // namespace
}  // namespace plimsoll::test
