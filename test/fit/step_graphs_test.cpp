#include "fit/step_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fit/small_request.h"

namespace plimsoll::test {
namespace {

StepGraph build(ProgramKind kind) {
  StepOptions options{.config = small_config(), .model = {}, .optimizer = {}};
  return build_step_graph(kind, options, {.samples = 2, .text_rows = 20}, 40);
}

bool has_output(const StepGraph& step, ValueId value) {
  return std::find(step.graph.outputs().begin(), step.graph.outputs().end(), value) != step.graph.outputs().end();
}

std::size_t count(const Graph& graph, Op op) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; }));
}

bool drops(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    const auto* attention = std::get_if<AttentionAttributes>(&node.attributes);
    return node.op == Op::kDropout || (attention != nullptr && attention->dropout_p > 0);
  });
}

TEST(StepGraphs, EachKindHasWhatItIsFor) {
  const std::size_t trained = build_layoutlmv3(small_config(), {.samples = 1, .text_rows = 1}, true).trained.size();
  for (const ProgramKind kind : {ProgramKind::kStep, ProgramKind::kAccumulate, ProgramKind::kAccumulateAndStep,
                                 ProgramKind::kEvaluate, ProgramKind::kGradients}) {
    SCOPED_TRACE(program_kind_name(kind));
    const StepGraph step = build(kind);
    EXPECT_NO_THROW(verify(step.graph));
    const bool accumulates = kind == ProgramKind::kAccumulate || kind == ProgramKind::kAccumulateAndStep;
    const bool updates = kind == ProgramKind::kStep || kind == ProgramKind::kAccumulateAndStep;
    EXPECT_TRUE(has_output(step, step.loss));
    EXPECT_EQ(step.graph.value(step.loss).name, "loss:0");
    EXPECT_EQ(step.graph.find_source("keep_gradients") != kNoValue, accumulates);
    EXPECT_EQ(count(step.graph, Op::kMergeRowGrads), accumulates ? 1U : 0U);
    EXPECT_EQ(count(step.graph, Op::kAdamW) + count(step.graph, Op::kAdamWRows), updates ? trained : 0U);
    EXPECT_EQ(step.gradient_norm != kNoValue && has_output(step, step.gradient_norm), updates);
    EXPECT_EQ(drops(step.graph), accumulates || updates);
    EXPECT_EQ(step.logits != kNoValue && has_output(step, step.logits), !accumulates && !updates);
  }
}

TEST(StepGraphs, GradientsAreOutputsUnderTheirParameters) {
  const StepGraph step = build(ProgramKind::kGradients);
  std::size_t parameters = 0;
  for (const auto& [parameter, gradient] : step.gradients) {
    const Value& value = step.graph.value(parameter);
    EXPECT_EQ(value.role, Role::kParameter);
    ++parameters;
    if (gradient.by_rows()) {
      EXPECT_EQ(value.name, "layoutlmv3.embeddings.word_embeddings.weight");
      EXPECT_TRUE(has_output(step, gradient.rows) && has_output(step, gradient.row_ids) &&
                  has_output(step, gradient.row_count));
      continue;
    }
    EXPECT_TRUE(has_output(step, gradient.dense)) << value.name;
    EXPECT_EQ(step.graph.type(gradient.dense), value.type) << value.name;
  }
  std::size_t expected = 0;
  for (const ParameterSpec& spec : parameter_specs(small_config())) expected += spec.trains ? 1 : 0;
  EXPECT_EQ(parameters, expected);
}

}  // namespace
}  // namespace plimsoll::test
