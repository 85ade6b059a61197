#include "fit/step_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "families/model_config.h"
#include "fit/small_request.h"
#include "graph/update_form.h"
#include "tasks/tasks.h"

namespace plimsoll::test {
namespace {

StepGraph build(ProgramKind kind) {
  StepOptions options{.definition = layoutlmv3(small_config()), .model = {}, .optimizer = {}};
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
  const std::size_t trained = layoutlmv3(small_config()).build({.samples = 1, .text_rows = 1}, true).trained.size();
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

std::map<std::string, TensorType> optimizer_states(const LabelledConfig& config, OptimizerKind kind) {
  StepOptions options{
      .definition = layoutlmv3(config), .model = {}, .optimizer = {.kind = kind, .adamw = {}, .decays = {}}};
  const StepGraph step = build_step_graph(ProgramKind::kStep, options, {.samples = 1, .text_rows = 20}, 20);
  std::map<std::string, TensorType> states;
  for (const Value& value : step.graph.values()) {
    if (value.producer == kNoNode && is_optimizer_state(value.name)) states.emplace(value.name, value.type);
  }
  return states;
}

// transformers' Adafactor factors tensors over the last two dimensions of their shape in the file.
TEST(StepGraphs, AdafactorFactorsTensorsAsTheFileShapesThem) {
  LabelledConfig config = small_config();
  const auto states = optimizer_states(config, OptimizerKind::kAdafactor);
  std::size_t stacks = 0;
  for (const ParameterSpec& spec : layoutlmv3(config).specs()) {
    if (!spec.trains || spec.file_shape.rank() < 2) continue;
    EXPECT_EQ(states.at(spec.name + ".exp_avg_sq_row").shape, row_mean_shape(spec.file_shape)) << spec.name;
    EXPECT_EQ(states.at(spec.name + ".exp_avg_sq_col").shape, column_mean_shape(spec.file_shape)) << spec.name;
    stacks += spec.file_shape.rank() > 2 ? 1U : 0U;
  }
  EXPECT_EQ(stacks, 3U);  // cls_token, pos_embed and the patches' convolution
  const std::int64_t size = config.patch_size;
  EXPECT_EQ(states.at("layoutlmv3.patch_embed.proj.weight.exp_avg_sq_row").shape, (Shape{config.hidden_size, 3, size}));
}

// A block of codes never holds two rows of an embedding table, whose gradients come in different updates.
TEST(StepGraphs, EmbeddingTablesKeepFloatsBesideCodes) {
  for (const std::string preset : {"layoutlmv3-tiny", "layoutlmv3-base"}) {
    const LabelledConfig config = layoutlmv3_preset(preset);
    const auto states = optimizer_states(config, OptimizerKind::kAdamW8bit);
    std::size_t tables = 0, coded = 0;
    for (const ParameterSpec& spec : layoutlmv3(config).specs()) {
      if (!spec.trains) continue;
      const bool is_table = spec.name.find("_embeddings.") != std::string::npos;
      const bool is_word = spec.name.find(".word_embeddings.") != std::string::npos;
      const bool codes = is_table ? is_word && config.hidden_size % 256 == 0 : spec.shape.elements() >= 4096;
      for (const char* moment : {".exp_avg", ".exp_avg_sq"}) {
        EXPECT_EQ(states.at(spec.name + moment).dtype, codes ? DType::kU8 : DType::kF32) << preset << " " << spec.name;
        EXPECT_EQ(states.contains(spec.name + moment + ".absmax"), codes) << preset << " " << spec.name;
      }
      tables += is_table ? 1U : 0U;
      coded += codes ? 1U : 0U;
    }
    EXPECT_EQ(tables, 7U);
    EXPECT_GT(coded, 10U);
  }
}

// The head gives each of its rows a gradient in every update.
TEST(StepGraphs, ATiedTableIsCodedWhateverItsWidth) {
  for (const bool tied : {true, false}) {
    const ModelConfig config = parse_config({{"model_type", "llama"},
                                             {"architectures", {"LlamaForCausalLM"}},
                                             {"vocab_size", 600},
                                             {"hidden_size", 96},
                                             {"intermediate_size", 64},
                                             {"num_hidden_layers", 1},
                                             {"num_attention_heads", 2},
                                             {"num_key_value_heads", 2},
                                             {"max_position_embeddings", 64},
                                             {"tie_word_embeddings", tied}},
                                            "config.json");
    StepOptions options{
        .definition = task_of(config.task).model(config.encoder, config.task), .model = {}, .optimizer = {}};
    options.optimizer.kind = OptimizerKind::kAdamW8bit;
    for (const UpdateMode update : {UpdateMode::kAfterBackward, UpdateMode::kHeadInParts}) {
      options.update = update;
      options.optimizer.clips = update == UpdateMode::kAfterBackward;
      const Graph graph = build_step_graph(ProgramKind::kStep, options, {.samples = 2, .text_rows = 20}, 40).graph;
      const ValueId moment = graph.find_source("model.embed_tokens.weight.exp_avg");
      ASSERT_NE(moment, kNoValue);
      EXPECT_EQ(graph.type(moment).dtype, tied ? DType::kU8 : DType::kF32);
      EXPECT_EQ(count(graph, Op::kCrossEntropyPart), update == UpdateMode::kHeadInParts ? 3U : 0U);  // of 256 rows
    }
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
  for (const ParameterSpec& spec : layoutlmv3(small_config()).specs()) expected += spec.trains ? 1 : 0;
  EXPECT_EQ(parameters, expected);
}

}  // namespace
}  // namespace plimsoll::test
