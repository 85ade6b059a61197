#include "transform/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "plan/memory_plan.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

struct NamedPolicy {
  const char* name;
  RecomputePolicy policy;
};

std::vector<NamedPolicy> policies() {
  return {{"cheap", is_cheap},
          {"everything", [](const Graph&, const Node&, std::size_t) { return true; }},
          {"products", [](const Graph&, const Node& node, std::size_t) { return node.op == Op::kLinear; }},
          {"normalized",
           [](const Graph&, const Node& node, std::size_t output) { return node.op == Op::kLayerNorm && output > 0; }},
          {"all but products", [](const Graph&, const Node& node, std::size_t) {
             return node.op != Op::kLinear && node.op != Op::kCrossEntropy;
           }}};
}

// Returns the net's step with all gradients as outputs.
Graph step_graph(DType dtype = DType::kF32) {
  SmallNet net(dtype);
  for (const auto& [parameter, gradient] : net.gradients) {
    for (const ValueId part : {gradient.dense, gradient.row_ids, gradient.row_count, gradient.rows}) {
      if (part != kNoValue) net.graph.mark_output(part);
    }
  }
  return net.graph;
}

std::vector<std::vector<double>> outputs_of(const Graph& graph, Backend& backend) {
  GraphRunner runner(graph, backend, {.reuse = Reuse::kFirst});
  set_all(runner, SmallNet(DType::kF32, false).weights());
  set_all(runner, SmallNet::batch(0));
  runner.run();
  std::vector<std::vector<double>> outputs;
  for (const ValueId output : graph.outputs()) outputs.push_back(runner.made(output));
  return outputs;
}

bool is_again(const Node& node) { return node.name.ends_with(".again"); }

TEST(Recompute, ChangesNoBitOfTheOutputs) {
  const Graph graph = step_graph();
  ReferenceBackend reference;
  CpuBackend cpu(2);
  for (Backend* backend : {static_cast<Backend*>(&reference), static_cast<Backend*>(&cpu)}) {
    const auto expected = outputs_of(graph, *backend);
    ASSERT_GT(expected.size(), 10U);
    for (const NamedPolicy& policy : policies()) {
      EXPECT_EQ(outputs_of(recompute(graph, policy.policy), *backend), expected)
          << backend->name() << ", " << policy.name;
    }
  }
}

TEST(Recompute, NoBackwardNodeReadsAChosenForwardValue) {
  const Graph graph = step_graph();
  for (const NamedPolicy& policy : policies()) {
    const Graph result = recompute(graph, policy.policy);
    EXPECT_NO_THROW(verify(result));
    std::size_t copies = 0;
    for (const Node& node : result.nodes()) {
      copies += is_again(node) ? 1 : 0;
      EXPECT_TRUE(node.phase == Phase::kBackward || !is_again(node)) << node.name;
      if (node.phase != Phase::kBackward) continue;
      for (const ValueId input : node.inputs) {
        const Value& value = result.value(input);
        if (value.producer == kNoNode) continue;
        const Node& producer = result.node(value.producer);
        if (producer.phase != Phase::kForward) continue;
        EXPECT_FALSE(policy.policy(result, producer, static_cast<std::size_t>(value.output_index)))
            << policy.name << ": " << node.name << " reads " << value.name;
      }
    }
    EXPECT_GT(copies, 0U) << policy.name;
    EXPECT_EQ(result.nodes().size(), graph.nodes().size() + copies) << policy.name;
  }
}

TEST(Recompute, CopiesStandRightBeforeTheirFirstReader) {
  for (const NamedPolicy& policy : policies()) {
    const Graph result = recompute(step_graph(), policy.policy);
    for (std::size_t n = 0; n < result.nodes().size(); ++n) {
      if (!is_again(result.nodes()[n])) continue;
      std::size_t reader = n + 1;
      while (reader < result.nodes().size() && is_again(result.nodes()[reader])) ++reader;
      const std::set<ValueId> outputs(result.nodes()[n].outputs.begin(), result.nodes()[n].outputs.end());
      bool is_read = false;
      for (std::size_t m = n + 1; m <= reader && m < result.nodes().size(); ++m) {
        const std::vector<ValueId>& inputs = result.nodes()[m].inputs;
        is_read = is_read || std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return outputs.contains(v); });
      }
      EXPECT_TRUE(is_read) << policy.name << ": " << result.nodes()[n].name;
    }
  }
}

TEST(Recompute, CheapValuesAreComputedAgainOnce) {
  const Graph result = recompute(step_graph(), is_cheap);
  std::multiset<std::string> copies;
  for (const Node& node : result.nodes()) {
    if (is_again(node)) copies.insert(node.name);
  }
  EXPECT_EQ(copies, (std::multiset<std::string>{"picks.again", "second.LayerNorm.again", "gelu.again", "dropout.again",
                                                "first.LayerNorm.again"}));
}

TEST(Recompute, AValueReadTwiceInBackwardIsComputedOnce) {
  const Graph result = recompute(step_graph(), policies()[1].policy);  // everything
  // gelu's gradient reads expand's output, and so does gelu itself when it is recomputed.
  EXPECT_EQ(std::count_if(result.nodes().begin(), result.nodes().end(),
                          [](const Node& node) { return node.name == "expand.again"; }),
            1);
}

TEST(Recompute, ALayerNormsOutputComesFromItsNormalizedOne) {
  const Graph result = recompute(step_graph(), is_cheap);
  for (const Node& node : result.nodes()) {
    if (node.name != "first.LayerNorm.again") continue;
    EXPECT_EQ(node.op, Op::kAffine);
    EXPECT_EQ(result.value(node.inputs[0]).name, "first.LayerNorm:1");
    EXPECT_NE(node.row_count, kNoValue);
    return;
  }
  FAIL() << "first.LayerNorm is not computed again";
}

TEST(Recompute, NothingChosenNothingChanged) {
  const Graph graph = step_graph();
  const Graph result = recompute(graph, [](const Graph&, const Node&, std::size_t) { return false; });
  const auto names = [](const Graph& from, std::span<const ValueId> values) {
    std::vector<std::string> list;
    for (const ValueId value : values) list.push_back(from.value(value).name);
    return list;
  };
  ASSERT_EQ(result.nodes().size(), graph.nodes().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node &now = result.nodes()[n], &old = graph.nodes()[n];
    EXPECT_EQ(now.name, old.name);
    EXPECT_EQ(now.phase, old.phase) << old.name;
    EXPECT_EQ(now.attributes, old.attributes) << old.name;
    EXPECT_EQ(names(result, now.inputs), names(graph, old.inputs)) << old.name;
    EXPECT_EQ(names(result, now.outputs), names(graph, old.outputs)) << old.name;
  }
  EXPECT_EQ(names(result, result.outputs()), names(graph, graph.outputs()));
}

// This is the purpose: with the cheap values recomputed, fewer bytes wait for backward.
TEST(Recompute, KeepsLessFromForwardToBackward) {
  const auto kept = [](const Graph& graph) {
    std::int64_t first_backward = 0;
    while (graph.nodes()[static_cast<std::size_t>(first_backward)].phase == Phase::kForward) ++first_backward;
    std::size_t bytes = 0;
    for (const Buffer& buffer : find_buffers(graph, {})) {
      const bool waits = buffer.life.begin < first_backward - 1 && buffer.life.end > first_backward;
      if (waits && buffer.role == Role::kActivation) bytes += buffer.life.bytes;
    }
    return bytes;
  };
  const Graph graph = step_graph();
  EXPECT_LT(kept(recompute(graph, is_cheap)), kept(graph));
}

TEST(IsCheap, IsWhatCostsNextToNothing) {
  const Graph graph;
  const auto cheap = [&](Op op, std::size_t output = 0) { return is_cheap(graph, {.op = op, .name = ""}, output); };
  for (const Op op : {Op::kGelu, Op::kDropout, Op::kAffine, Op::kGatherRows, Op::kPatchify, Op::kLayerNorm}) {
    EXPECT_TRUE(cheap(op)) << op_name(op);
  }
  EXPECT_FALSE(cheap(Op::kLayerNorm, 1));
  EXPECT_FALSE(cheap(Op::kLayerNorm, 2));
  for (const Op op : {Op::kLinear, Op::kAttention, Op::kEmbedding, Op::kCrossEntropy, Op::kAdd}) {
    EXPECT_FALSE(cheap(op)) << op_name(op);
  }
}

}  // namespace
}  // namespace plimsoll::test
