#include "transform/recompute_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

double by_op(const Graph&, const Node& node) {
  switch (node.op) {
    case Op::kLinear:
      return 10;
    case Op::kLayerNorm:
      return 2;
    default:
      return 1;
  }
}

std::set<std::string> names_of(const std::vector<Recomputation>& ranked, std::size_t count) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.insert(ranked[i].nodes.begin(), ranked[i].nodes.end());
  return names;
}

// Counts naively: activations that a backward node of the rewritten graph reads.
std::size_t read_by_backward(const Graph& graph) {
  std::set<ValueId> read;
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::kBackward) continue;
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      if (producer != kNoNode && graph.node(producer).phase == Phase::kForward) read.insert(input);
    }
  }
  std::size_t bytes = 0;
  for (const ValueId value : read) bytes += graph.type(value).bytes();
  return bytes;
}

TEST(RecomputeChoice, FreesWhatItSays) {
  const SmallNet net;
  const auto ranked = rank_recomputations(net.graph, {}, by_op);
  ASSERT_GT(ranked.size(), 2U);
  std::size_t expected = kept_bytes(net.graph, {});
  EXPECT_EQ(expected, read_by_backward(recompute(net.graph, is_cheap)));
  for (std::size_t count = 1; count <= ranked.size(); ++count) {
    expected -= ranked[count - 1].bytes;
    const std::set<std::string> again = names_of(ranked, count);
    EXPECT_EQ(kept_bytes(net.graph, again), expected) << count;
    EXPECT_EQ(read_by_backward(recompute(net.graph, recompute_policy(again))), expected) << count;
  }
}

TEST(RecomputeChoice, TheBestComesFirst) {
  const SmallNet net;
  const auto ranked = rank_recomputations(net.graph, {}, by_op);
  const auto worth = [](const Recomputation& r) { return static_cast<double>(r.bytes) / r.seconds; };
  // No single kept node frees more for its time than the first choice; `expand` is the widest value by far.
  EXPECT_EQ(ranked.front().nodes.front(), "first.LayerNorm");
  for (const Recomputation& recomputation : ranked) {
    EXPECT_GT(recomputation.bytes, 0U);
    EXPECT_GT(recomputation.seconds, 0);
    EXPECT_LE(worth(recomputation), worth(ranked.front()));
  }
}

TEST(RecomputeChoice, AnchorsStay) {
  const SmallNet net;
  const std::set<std::string> anchors = {"first.LayerNorm", "residual"};
  for (const Recomputation& recomputation : rank_recomputations(net.graph, anchors, by_op)) {
    for (const std::string& name : recomputation.nodes) EXPECT_FALSE(anchors.contains(name)) << name;
  }
}

TEST(RecomputeChoice, ChangesNoBit) {
  const SmallNet net;
  ReferenceBackend backend;
  const auto gradients = [&](const Graph& graph) {
    GraphRunner runner(graph, backend, {.reuse = Reuse::kFirst});
    set_all(runner, net.weights());
    set_all(runner, SmallNet::batch(1));
    runner.run();
    std::vector<std::vector<double>> made;
    for (const ValueId output : graph.outputs()) made.push_back(runner.made(output));
    return made;
  };
  Graph graph = net.graph;
  for (const auto& [parameter, gradient] : net.gradients) {
    if (!gradient.by_rows()) graph.mark_output(gradient.dense);
  }
  const auto expected = gradients(graph);
  const auto ranked = rank_recomputations(graph, {}, by_op);
  for (std::size_t count = 1; count <= ranked.size(); ++count) {
    EXPECT_EQ(gradients(recompute(graph, recompute_policy(names_of(ranked, count)))), expected) << count;
  }
}

}  // namespace
}  // namespace plimsoll::test
