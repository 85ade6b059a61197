#include "transform/early_updates.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "plan/memory_plan.h"
#include "support/expect_error.h"
#include "support/small_net.h"
#include "transform/recompute.h"

namespace plimsoll::test {
namespace {

constexpr OptimizerKind kKinds[] = {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor};

Graph updating_net(bool clips, OptimizerKind kind = OptimizerKind::kAdamW) {
  SmallNet net;
  append_optimizer(net.graph, net.gradients,
                   {.kind = kind,
                    .coded_from = 16,
                    .adamw = {.weight_decay = 0.1},
                    .clips = clips,
                    .updates_early = !clips,
                    .decays = {}});
  return recompute(net.graph, is_cheap);
}

// Returns parameters and moments after one update, and the norm.
std::map<std::string, std::vector<double>> run(const Graph& graph, Backend& backend, bool clips) {
  GraphRunner runner(graph, backend, {.reuse = Reuse::kFirst});
  set_all(runner, SmallNet(DType::kF32, false).weights());
  set_all(runner, SmallNet::batch(0));
  for (const Value& value : graph.values()) {
    if (value.producer == kNoNode && value.role == Role::kState) {
      runner.set(value.name, std::vector<double>(static_cast<std::size_t>(value.type.shape.elements()), 0.125));
    }
  }
  const std::vector<double> max_norm = {clips ? 0.05 : 0}, rate = {0.01}, step = {3};
  runner.set(kMaxGradNormInput, max_norm);
  runner.set(kLearningRateInput, rate);
  runner.set(kStepInput, step);
  runner.run();
  std::map<std::string, std::vector<double>> made;
  for (const Value& value : graph.values()) {
    if (is_persistent(value.role) && value.producer != kNoNode) made[value.name] = runner.made(value.name);
  }
  made["norm"] = runner.made("gradient_norm:0");
  return made;
}

std::size_t bound_of(const Graph& graph) {
  PersistentLayout layout;
  layout.add(graph);
  return estimate_memory(graph, {}, layout).lower_bound_bytes;
}

TEST(EarlyUpdates, ChangeNoBit) {
  ReferenceBackend reference;
  CpuBackend cpu(2);
  for (Backend* backend : {static_cast<Backend*>(&reference), static_cast<Backend*>(&cpu)}) {
    for (const OptimizerKind kind : kKinds) {
      for (const bool clips : {false, true}) {
        SCOPED_TRACE(std::string(backend->name()) + ", " + std::string(optimizer_name(kind)));
        const Graph graph = updating_net(clips, kind);
        const auto expected = run(graph, *backend, clips);
        ASSERT_GT(expected.size(), 20U);
        EXPECT_EQ(run(update_early(graph), *backend, clips), expected) << clips;
        if (clips) {
          EXPECT_EQ(run(update_early(repeat_backward(graph)), *backend, clips), expected);
        }
      }
    }
  }
}

TEST(EarlyUpdates, ClippingMatters) {  // otherwise the test above would not test the second pass
  ReferenceBackend backend;
  for (const OptimizerKind kind : kKinds) {
    EXPECT_NE(run(updating_net(true, kind), backend, true), run(updating_net(false, kind), backend, false));
  }
}

TEST(EarlyUpdates, FollowTheirGradientsAtOnce) {
  const Graph graph = updating_net(false);
  const Graph early = update_early(graph);
  EXPECT_NO_THROW(verify(early));
  EXPECT_EQ(early.nodes().size(), graph.nodes().size());
  // The last layer's weight is updated before backward continues to the layer below.
  std::map<std::string, std::size_t> position;
  for (std::size_t n = 0; n < early.nodes().size(); ++n) position[early.nodes()[n].name] = n;
  std::size_t last_backward = 0;
  for (std::size_t n = 0; n < early.nodes().size(); ++n) {
    if (early.nodes()[n].phase == Phase::kBackward) last_backward = n;
  }
  EXPECT_LT(position.at("classifier.weight.update"), last_backward);
  EXPECT_LT(position.at("classifier.weight.update"), position.at("expand.weight.update"));
  EXPECT_GT(position.at("gradient_norm"), last_backward);
}

// In wide layers with few rows the gradients of weights outweigh everything else.
Graph wide_net(bool clips) {
  Graph graph;
  constexpr std::int64_t kWide = 64;
  ValueId x = graph.add_input("x", {DType::kF32, {2, kWide}});
  std::vector<ValueId> weights;
  for (int layer = 0; layer < 6; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    weights.push_back(graph.add_parameter(name + ".weight", {DType::kF32, {kWide, kWide}}));
    const ValueId bias = graph.add_parameter(name + ".bias", {DType::kF32, {kWide}});
    x = linear(graph, name, x, weights.back(), bias, kNoValue);
  }
  const Seed seed{.value = x, .gradient = graph.add_input("dy", {DType::kF32, {2, kWide}})};
  const auto gradients = append_backward(graph, {&seed, 1}, weights);
  append_optimizer(graph, gradients, {.adamw = {}, .clips = clips, .updates_early = !clips, .decays = {}});
  return graph;
}

TEST(EarlyUpdates, SpareGradients) {
  constexpr std::size_t kWeight = 64 * 64 * 4;
  const Graph plain = wide_net(false), clipped = wide_net(true);
  EXPECT_GT(bound_of(plain), 6 * kWeight);
  EXPECT_GT(bound_of(clipped), 6 * kWeight);
  EXPECT_LT(bound_of(update_early(plain)), 2 * kWeight);
  EXPECT_LT(bound_of(update_early(repeat_backward(clipped))), 2 * kWeight);
  // Without the second pass, clipped updates cannot be early.
  EXPECT_GT(bound_of(update_early(clipped)), 6 * kWeight);
}

TEST(RepeatBackward, RunsEveryBackwardNodeTwice) {
  const Graph graph = updating_net(true);
  const Graph twice = repeat_backward(graph);
  EXPECT_NO_THROW(verify(twice));
  const auto backward = std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                      [](const Node& node) { return node.phase == Phase::kBackward; });
  EXPECT_EQ(twice.nodes().size(), graph.nodes().size() + static_cast<std::size_t>(backward));
}

TEST(RepeatBackward, RefusesAccumulatedGradients) {
  SmallNet net;
  Gradients gradients = net.gradients;
  Graph graph = accumulate_gradients(net.graph, 8, gradients);
  append_optimizer(graph, gradients, {});
  expect_error<InternalError>([&] { repeat_backward(graph); }, {"cannot run twice"});
}

}  // namespace
}  // namespace plimsoll::test
