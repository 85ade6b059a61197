// append_optimizer against AdamW written as a loop over doubles, after the formulas of Loshchilov and Hutter (2019).
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

// Gradients of update 1, 2, …, dense; the table's rows 0, 2, 5 or 1, 5.
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
  runner.set("rows", rows);  // what is beyond them is not a number
  runner.set("count", std::vector<double>{static_cast<double>(ids.size())});
}

// The whole update, again.
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
        list[i] -= rate * (m_hat / (std::sqrt(v_hat) + kAdamW.eps) + decay);
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
// The norm of these gradients is some 3.5.
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

TEST(AppendOptimizer, NothingToTrainIsRefused) {
  Graph graph;
  expect_error<InternalError>([&] { append_optimizer(graph, {}, {}); }, {"something to train"});
}

// As the patterns of transformers 5.17.0 decide (Trainer.get_decay_parameter_names).
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
