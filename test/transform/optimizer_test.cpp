// Compares append_optimizer with AdamW as a loop over doubles, after the formulas of Loshchilov and Hutter (2019).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/reference/reference_backend.h"
#include "support/expect_error.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

constexpr AdamWAttributes kAdamW{.beta1 = 0.85, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.125};
const std::vector<std::string> kNames = {"dense.weight", "dense.bias", "LayerNorm.weight", "table.weight"};

// Four parameters whose gradients are inputs; the table's comes as rows.
struct UpdateNet {
  Graph graph;
  Gradients gradients;
  ValueId norm = kNoValue;
  std::map<std::string, std::vector<double>> start;

  explicit UpdateNet(const OptimizerOptions& options) {
    add_parameter("dense.weight", {3, 4});
    add_parameter("dense.bias", {3});
    add_parameter("LayerNorm.weight", {5});
    const ValueId table = add_parameter("table.weight", {6, 2});
    gradients[table] = {.row_ids = graph.add_input("ids", {DType::kI32, {4}}),
                        .row_count = graph.add_input("count", {DType::kI32, {1}}),
                        .rows = graph.add_input("rows", {DType::kF64, {4, 2}})};
    norm = append_optimizer(graph, gradients, options);
  }

 private:
  ValueId add_parameter(const std::string& name, Shape shape) {
    const ValueId parameter = graph.add_parameter(name, {DType::kF64, shape});
    start[name] = numbers(shape.elements(), static_cast<double>(name.size()));
    if (name != "table.weight") gradients[parameter] = {.dense = graph.add_input(name + "?", {DType::kF64, shape})};
    return parameter;
  }
};

// Returns the dense gradients of update 1, 2, …; the table has rows 0, 2, 5 or 1, 5.
std::map<std::string, std::vector<double>> gradients_at(const UpdateNet& net, int step) {
  std::map<std::string, std::vector<double>> gradients;
  for (const auto& [name, values] : net.start) {
    gradients[name] = numbers(static_cast<std::int64_t>(values.size()), 3.0 * step + static_cast<double>(name[0]));
  }
  std::vector<double>& table = gradients["table.weight"];
  for (std::size_t row = 0; row < 6; ++row) {
    const bool present = step % 2 == 1 ? row == 0 || row == 2 || row == 5 : row == 1 || row == 5;
    if (!present) table[2 * row] = table[2 * row + 1] = 0;
  }
  return gradients;
}

void set_gradients(GraphRunner& runner, const std::map<std::string, std::vector<double>>& gradients) {
  std::vector<double> ids, rows;
  for (const auto& [name, values] : gradients) {
    if (name != "table.weight") {
      runner.set(name + "?", values);
      continue;
    }
    for (std::size_t row = 0; row < 6; ++row) {
      if (values[2 * row] == 0) continue;
      ids.push_back(static_cast<double>(row));
      rows.insert(rows.end(), {values[2 * row], values[2 * row + 1]});
    }
  }
  runner.set("ids", ids);
  runner.set("rows", rows);  // the rows beyond them are NaN
  runner.set("count", std::vector<double>{static_cast<double>(ids.size())});
}

// Repeats the whole update as a loop.
class Loop {
 public:
  Loop(std::map<std::string, std::vector<double>> parameters, const OptimizerOptions& options)
      : values(std::move(parameters)), options_(options) {
    for (const auto& [name, list] : values) m_[name] = v_[name] = std::vector<double>(list.size(), 0.0);
  }

  void step(const std::map<std::string, std::vector<double>>& gradients, double rate, double max_norm) {
    ++steps_;
    double squares = 0;
    for (const auto& [name, list] : gradients) {
      for (const double g : list) squares += g * g;
    }
    norm = std::sqrt(squares);
    // The clip factor is a float in the graph.
    const double clip = max_norm > 0 ? static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6))) : 1.0;
    for (auto& [name, list] : values) {
      const bool decays = options_.decays ? options_.decays(name) : name.ends_with(".weight") && name[0] != 'L';
      for (std::size_t i = 0; i < list.size(); ++i) {
        const double g = gradients.at(name)[i] * clip;
        double &m = m_[name][i], &v = v_[name][i];
        m = kAdamW.beta1 * m + (1 - kAdamW.beta1) * g;
        v = kAdamW.beta2 * v + (1 - kAdamW.beta2) * g * g;
        const double m_hat = m / (1 - std::pow(kAdamW.beta1, steps_)), v_hat = v / (1 - std::pow(kAdamW.beta2, steps_));
        const double decay = decays ? kAdamW.weight_decay * list[i] : 0;
        const double own_rate = rate * (options_.rate_factor ? options_.rate_factor(name) : 1);
        list[i] -= own_rate * (m_hat / (std::sqrt(v_hat) + kAdamW.eps) + decay);
      }
    }
  }

  std::map<std::string, std::vector<double>> values;
  double norm = 0;

 private:
  OptimizerOptions options_;
  std::map<std::string, std::vector<double>> m_, v_;
  int steps_ = 0;
};

void expect_updates(const OptimizerOptions& options, double max_norm, int updates) {
  const UpdateNet net(options);
  verify(net.graph);
  ReferenceBackend backend;
  GraphRunner runner(net.graph, backend);
  Loop loop(net.start, options);
  for (const auto& [name, values] : net.start) {
    runner.set(name, values);
    runner.set(name + ".exp_avg", std::vector<double>(values.size(), 0.0));
    runner.set(name + ".exp_avg_sq", std::vector<double>(values.size(), 0.0));
  }
  runner.set("max_grad_norm", std::vector<double>{max_norm});
  for (int step = 1; step <= updates; ++step) {
    const double rate = 0.0625 / step;
    const auto rounded = static_cast<double>(static_cast<float>(rate));
    runner.set("learning_rate", std::vector<double>{rate});
    runner.set("step", std::vector<double>{static_cast<double>(step)});
    const auto gradients = gradients_at(net, step);
    set_gradients(runner, gradients);
    runner.run();
    loop.step(gradients, rounded, max_norm);
    EXPECT_EQ(runner.made(net.norm).at(0), static_cast<double>(static_cast<float>(loop.norm)));
    for (const auto& [name, values] : loop.values) {
      const std::vector<double> found = runner.get(net.graph.find_source(name));
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(found[i], values[i], 1e-13) << "update " << step << ", " << name << " " << i;
      }
    }
  }
}

TEST(AppendOptimizer, OneUpdate) { expect_updates({.adamw = kAdamW, .decays = {}}, 0, 1); }
TEST(AppendOptimizer, SeveralUpdates) { expect_updates({.adamw = kAdamW, .decays = {}}, 0, 6); }
TEST(AppendOptimizer, RatesOfSingleParameters) {
  expect_updates({.adamw = kAdamW,
                  .decays = {},
                  .rate_factor = [](const std::string& name) { return name == "table.weight" ? 0.25 : 1.5; }},
                 0, 4);
}
// The norm of these gradients is about 3.5.
TEST(AppendOptimizer, ClipsByTheNormOfAllGradients) { expect_updates({.adamw = kAdamW, .decays = {}}, 0.5, 4); }
TEST(AppendOptimizer, LeavesSmallGradientsAsTheyAre) { expect_updates({.adamw = kAdamW, .decays = {}}, 100, 2); }
TEST(AppendOptimizer, DecaysWhatTheCallerSays) {
  expect_updates({.adamw = kAdamW, .decays = [](const std::string& name) { return name == "dense.bias"; }}, 0, 2);
}

TEST(AppendOptimizer, NamesItsStatesAndItsOutput) {
  const UpdateNet net({.adamw = kAdamW, .decays = {}});
  for (const std::string& name : kNames) {
    const TensorType type = net.graph.type(net.graph.find_source(name));
    for (const char* moment : {".exp_avg", ".exp_avg_sq"}) {
      const ValueId state = net.graph.find_source(name + moment);
      ASSERT_NE(state, kNoValue) << name << moment;
      EXPECT_EQ(net.graph.value(state).role, Role::kState);
      EXPECT_EQ(net.graph.type(state), type);
    }
  }
  ASSERT_EQ(net.graph.outputs().size(), 1U);
  EXPECT_EQ(net.graph.outputs()[0], net.norm);
  for (const Node& node : net.graph.nodes()) {
    EXPECT_EQ(node.phase, Phase::kUpdate) << node.name;
    const auto* attributes = std::get_if<AdamWAttributes>(&node.attributes);
    if (attributes == nullptr) continue;
    const bool decays = node.name == "dense.weight.update" || node.name == "table.weight.update";
    EXPECT_EQ(attributes->weight_decay, decays ? kAdamW.weight_decay : 0) << node.name;
    EXPECT_EQ(attributes->beta1, kAdamW.beta1);
  }
}

// Returns the type of a state by name; rank 0 of BOOL if there is none.
TensorType state_type(const Graph& graph, const std::string& name) {
  const ValueId state = graph.find_source(name);
  return state == kNoValue || graph.value(state).role != Role::kState ? TensorType{DType::kBool, {}}
                                                                      : graph.type(state);
}

Graph graph_of_kind(OptimizerKind kind, DType parameter) {
  Graph graph;
  Gradients gradients;
  const auto add = [&](const std::string& name, Shape shape) {
    const ValueId value = graph.add_parameter(name, {parameter, shape});
    gradients[value] = {.dense = graph.add_input(name + "?", {DType::kF32, shape})};
  };
  add("large", {65, 64});
  add("small", {63, 65});  // 4095 elements
  add("stack", {5, 6, 7, 8});
  add("bias", {70});
  append_optimizer(graph, gradients, {.kind = kind, .adamw = {}, .decays = {}});
  verify(graph);
  return graph;
}

TEST(AppendOptimizer, EachKindHasItsStates) {
  const Graph coded = graph_of_kind(OptimizerKind::kAdamW8bit, DType::kF32);
  for (const std::string moment : {"large.exp_avg", "large.exp_avg_sq"}) {
    EXPECT_EQ(state_type(coded, moment), (TensorType{DType::kU8, {65, 64}}));
    EXPECT_EQ(state_type(coded, moment + ".absmax"), (TensorType{DType::kF32, {17}}));  // 16 blocks and a short one
  }
  EXPECT_EQ(state_type(coded, "small.exp_avg"), (TensorType{DType::kF32, {63, 65}}));
  EXPECT_EQ(coded.find_source("small.exp_avg.absmax"), kNoValue);
  const Graph factored = graph_of_kind(OptimizerKind::kAdafactor, DType::kF32);
  EXPECT_EQ(state_type(factored, "large.exp_avg_sq_row"), (TensorType{DType::kF32, {65}}));
  EXPECT_EQ(state_type(factored, "large.exp_avg_sq_col"), (TensorType{DType::kF32, {64}}));
  EXPECT_EQ(state_type(factored, "stack.exp_avg_sq_row"), (TensorType{DType::kF32, {5, 6, 7}}));
  EXPECT_EQ(state_type(factored, "stack.exp_avg_sq_col"), (TensorType{DType::kF32, {5, 6, 8}}));
  EXPECT_EQ(state_type(factored, "bias.exp_avg_sq"), (TensorType{DType::kF32, {70}}));
  EXPECT_EQ(factored.find_source("large.exp_avg"), kNoValue);
}

TEST(AppendOptimizer, TheModelSaysHowAParameterIsHeld) {
  const auto graph_of = [](OptimizerKind kind, const ParameterFacts& facts) {
    Graph graph;
    Gradients gradients;
    for (const char* name : {"one", "other"}) {
      gradients[graph.add_parameter(name, {DType::kF32, {70, 192}})] = {
          .dense = graph.add_input(std::string(name) + "?", {DType::kF32, {70, 192}})};
    }
    append_optimizer(graph, gradients, {.kind = kind, .adamw = {}, .decays = {}}, facts);
    verify(graph);
    return graph;
  };
  const auto shape_of = [](const std::string& name) { return name == "one" ? Shape{70, 3, 8, 8} : Shape{70, 192}; };
  const Graph factored = graph_of(OptimizerKind::kAdafactor, {.factored_shape = shape_of});
  EXPECT_EQ(state_type(factored, "one.exp_avg_sq_row").shape, (Shape{70, 3, 8}));
  EXPECT_EQ(state_type(factored, "one.exp_avg_sq_col").shape, (Shape{70, 3, 8}));
  EXPECT_EQ(state_type(factored, "other.exp_avg_sq_row").shape, (Shape{70}));
  EXPECT_EQ(state_type(factored, "other.exp_avg_sq_col").shape, (Shape{192}));
  const Graph coded =
      graph_of(OptimizerKind::kAdamW8bit, {.takes_codes = [](const std::string& name) { return name == "one"; }});
  EXPECT_EQ(state_type(coded, "one.exp_avg").dtype, DType::kU8);
  EXPECT_EQ(state_type(coded, "other.exp_avg").dtype, DType::kF32);
  // If the means' sizes do not match the parameter's elements, they fit none of its shapes.
  expect_error<InternalError>(
      [&] {
        graph_of(OptimizerKind::kAdafactor, {.factored_shape = [](const std::string&) { return Shape{70, 3, 8, 9}; }});
      },
      {"stack of matrices"});
}

TEST(AppendOptimizer, AParameterOfBF16IsCompletedByAState) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor}) {
    const Graph graph = graph_of_kind(kind, DType::kBF16);
    EXPECT_EQ(state_type(graph, "large.low"), (TensorType{DType::kI16, {65, 64}}));
    EXPECT_EQ(graph_of_kind(kind, DType::kF32).find_source("large.low"), kNoValue);
    for (const Value& value : graph.values()) {
      if (value.role != Role::kState || value.producer != kNoNode) continue;
      EXPECT_NE(is_optimizer_state(value.name), value.name.ends_with(kLowHalfSuffix)) << value.name;
    }
  }
}

TEST(AppendOptimizer, FormsThatDoNotFitAreRefused) {
  Graph graph;
  const ValueId parameter = graph.add_parameter("p", {DType::kF32, {300}});
  const auto state = [&](DType dtype, std::int64_t count) { return graph.add_state("s", {dtype, {count}}); };
  const ValueId gradient = graph.add_input("g", {DType::kF32, {300}}), rate = graph.add_input("r", {DType::kF32, {1}});
  const ValueId step = graph.add_input("t", {DType::kI32, {1}});
  const auto update = [&](std::vector<ValueId> inputs) {
    inputs.insert(inputs.end(), {gradient, rate, step, rate});
    graph.add_node({.op = Op::kAdamW, .name = "update", .attributes = AdamWAttributes{}, .inputs = inputs});
  };
  const ValueId m = state(DType::kF32, 300), codes = state(DType::kU8, 300), absmax = state(DType::kF32, 2);
  const ValueId low = state(DType::kI16, 300);
  EXPECT_NO_THROW(update({parameter, codes, absmax, codes, absmax}));
  expect_error<InternalError>([&] { update({parameter, codes, m, codes, m}); }, {"input 2 must be F32[2]"});
  expect_error<InternalError>([&] { update({parameter, codes, absmax, m}); }, {"two moments"});
  expect_error<InternalError>([&] { update({parameter, m}); }, {"two moments"});
  expect_error<InternalError>([&] { update({parameter, low, m, m}); }, {"two moments"});
  const ValueId half = graph.add_parameter("h", {DType::kBF16, {300}});
  EXPECT_NO_THROW(update({half, low, m, m}));
  expect_error<InternalError>([&] { update({half, m, m}); }, {"split in BF16 and I16"});
}

TEST(Optimizer, NamesAreThoseOfTheTrainer) {
  EXPECT_EQ(parse_optimizer("adamw_torch"), OptimizerKind::kAdamW);
  EXPECT_EQ(parse_optimizer("adamw_8bit"), OptimizerKind::kAdamW8bit);
  EXPECT_EQ(parse_optimizer("adafactor"), OptimizerKind::kAdafactor);
  for (const char* name : {"adamw_torch", "adamw_8bit", "adafactor"})
    EXPECT_EQ(optimizer_name(parse_optimizer(name)), name);
  expect_error<UsageError>([] { parse_optimizer("sgd"); }, {"--optim", "sgd", "adamw_8bit"});
}

TEST(AppendOptimizer, NothingToTrainIsRefused) {
  Graph graph;
  expect_error<InternalError>([&] { append_optimizer(graph, {}, {}); }, {"something to train"});
}

// The patterns are those of transformers 5.17.0 (Trainer.get_decay_parameter_names).
TEST(DecaysByDefault, BiasesAndNormsDoNot) {
  for (const char* name :
       {"layoutlmv3.encoder.layer.3.attention.self.query.weight", "layoutlmv3.encoder.layer.3.output.dense.weight",
        "layoutlmv3.cls_token", "layoutlmv3.pos_embed", "layoutlmv3.embeddings.word_embeddings.weight",
        "layoutlmv3.patch_embed.proj.weight", "classifier.out_proj.weight", "normal.weight", "abnorm.weight"}) {
    EXPECT_TRUE(decays_by_default(name)) << name;
  }
  for (const char* name :
       {"layoutlmv3.encoder.layer.3.attention.self.query.bias", "layoutlmv3.encoder.layer.3.output.LayerNorm.weight",
        "layoutlmv3.norm.weight", "layoutlmv3.LayerNorm.weight", "layoutlmv3.encoder.rel_pos_bias.weight",
        "layoutlmv3.encoder.rel_pos_x_bias.weight", "norm.weight", "final_norm.weight", "rmsnorm.weight", "block.norm",
        "q_norm", "norm"}) {
    EXPECT_FALSE(decays_by_default(name)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::test
