#include "transform/head_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autodiff/autodiff.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "plan/memory_plan.h"
#include "support/graph_runner.h"
#include "transform/chunked_loss.h"
#include "transform/early_updates.h"
#include "transform/offload.h"
#include "transform/optimizer.h"
#include "transform/reference_outputs.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kRows = 150, kWidth = 32, kClasses = 1100;
constexpr std::int64_t kParts = 3;  // of 512 rows, the last of 76

constexpr const char* kOutputs[] = {"loss", "scores", "norm"};

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

struct Settings {
  DType dtype = DType::kF32;
  bool tied = true, clips = false;
  OptimizerKind kind = OptimizerKind::kAdamW;
  std::int64_t classes = kClasses;
};

// Look-ups in a table, a map, and a head over the table's rows, or over those of a weight of its own; and its update.
Graph training_graph(const Settings& s) {
  Graph graph;
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  const ValueId ids = graph.add_input("ids", {DType::kI32, {kRows}});
  const ValueId table = graph.add_parameter("table", {s.dtype, {s.classes, kWidth}});
  const ValueId inner = graph.add_parameter("inner", {s.dtype, {kWidth, kWidth}});
  std::vector<ValueId> trained = {table, inner};
  const ValueId weight = s.tied ? table : graph.add_parameter("weight", {s.dtype, {s.classes, kWidth}});
  if (!s.tied) trained.push_back(weight);
  const ValueId hidden =
      linear(graph, "hidden", embedding(graph, "x", table, ids, {.padding_idx = 3}, rows), inner, kNoValue, rows);
  const ValueId logits = linear(graph, "head", hidden, weight, kNoValue, rows);
  const ValueId labels = graph.add_input("labels", {DType::kI32, {kRows}});
  const ValueId scale = graph.add_input("loss_scale", {s.dtype, {1}});
  const ValueId loss = graph.add_node({.op = Op::kCrossEntropy,
                                       .name = "loss",
                                       .attributes = CrossEntropyAttributes{},
                                       .inputs = {logits, labels, scale},
                                       .row_count = rows})[0];
  graph.mark_output(loss);
  graph.mark_output(
      add_single(graph, {.op = Op::kLabelScores, .name = "scores", .inputs = {logits, labels}, .row_count = rows}));
  const Seed seed = loss_seed(graph, loss);
  const Gradients gradients = append_backward(graph, {&seed, 1}, trained);
  append_optimizer(graph, gradients,
                   {.kind = s.kind,
                    .coded_from = 16,
                    .adamw = {.weight_decay = 0.1},
                    .clips = s.clips,
                    .updates_early = !s.clips,
                    .decays = {}});
  return graph;
}

Graph whole(const Graph& graph) { return update_early(chunk_loss(graph)); }
Graph in_parts(const Graph& graph) { return update_early(chunk_loss(update_head_in_parts(graph, kParts))); }

// Parameters, moments, the loss, the scores and the norm after one update.
std::map<std::string, std::vector<double>> run(const Graph& graph, Backend& backend, std::int64_t rows) {
  verify(graph);
  GraphRunner runner(graph, backend, {.reuse = Reuse::kFirst});
  std::uint32_t seed = 0;
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode) continue;
    std::vector<double> values = drawn_values(value, seed);
    for (double& each : values) {
      if (value.type.dtype == DType::kI32) each = std::fmod(each, kClasses);
      if (value.type.dtype == DType::kU8) each = std::fmod(each, 256);
      if (value.role == Role::kState && is_floating(value.type.dtype)) each = (each + 1) / 2;
    }
    if (value.name == "rows") values = {static_cast<double>(rows)};
    if (value.name == "loss_scale") values = {0.25};
    if (value.name == kMaxGradNormInput) values = {0};
    if (value.name == kLearningRateInput) values = {0.01};
    if (value.name == kStepInput) values = {3};
    for (std::size_t i = 0; value.name == "labels" && i < values.size(); i += 7) values[i] = -100;
    runner.set(value.name, values);
  }
  runner.run();
  std::map<std::string, std::vector<double>> made;
  for (const Value& value : graph.values()) {
    if (is_persistent(value.role) && value.producer != kNoNode) made[value.name] = runner.made(value.name);
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    made[kOutputs[i]] = runner.made(graph.value(graph.outputs()[i]).name);
  }
  return made;
}

TEST(HeadParts, ChangeNoBit) {
  CpuBackend backend(1);
  for (const bool tied : {true, false}) {
    for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit}) {
      const Graph graph = training_graph({.tied = tied, .kind = kind});
      const Graph parts = in_parts(graph);
      EXPECT_EQ(count(parts, Op::kCrossEntropyPart), 3 * 3);  // of 512, 512 and 76 classes; of 64, 64 and 22 rows
      for (const std::int64_t rows : {0, 1, 64, 150}) {
        auto expected = run(whole(graph), backend, rows), found = run(parts, backend, rows);
        // Squares are summed in doubles, part by part.
        EXPECT_NEAR(found.at("norm")[0], expected.at("norm")[0], 1e-6);
        found["norm"] = expected["norm"];
        for (const auto& [name, values] : expected) EXPECT_TRUE(found.at(name) == values) << name << ", " << rows;
      }
    }
  }
}

TEST(HeadParts, ComputeWhatTheReferenceComputes) {
  ReferenceBackend backend;
  for (const bool tied : {true, false}) {
    const Graph graph = training_graph({.dtype = DType::kF64, .tied = tied});
    const auto expected = run(whole(graph), backend, 140), found = run(in_parts(graph), backend, 140);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, values] : expected) {
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found.at(name)[i], values[i], 1e-9) << name;
    }
  }
}

TEST(HeadParts, NoGradientOfTheWholeIsLeft) {
  for (const bool tied : {true, false}) {
    const Graph parts = in_parts(training_graph({.tied = tied}));
    for (const Value& value : parts.values()) {
      if (value.producer == kNoNode || parts.node(value.producer).phase != Phase::kBackward) continue;
      if (!tied && parts.node(value.producer).op == Op::kEmbeddingGrad) continue;  // the table's own
      EXPECT_LE(value.type.shape.elements(), std::max(512 * kWidth, 64 * kClasses)) << value.name;
    }
  }
}

TEST(HeadParts, OtherUpdatesStayWhole) {
  for (const Settings& s :
       {Settings{.clips = true}, Settings{.kind = OptimizerKind::kAdafactor}, Settings{.classes = 256}}) {
    EXPECT_EQ(count(update_head_in_parts(training_graph(s), kParts), Op::kCrossEntropyPart), 0);
  }
}

// Moments that several updates share stay in memory.
TEST(HeadParts, SharedMomentsAreNotOffloaded) {
  for (const Offloading& offloading :
       rank_offloads(in_parts(training_graph({})),
                     {.node_seconds = [](const Graph&, const Node&) { return 1e-6; }, .smallest_bytes = 1})) {
    EXPECT_FALSE(offloading.name.starts_with("table")) << offloading.name;
  }
}

}  // namespace
}  // namespace plimsoll::test
