#include "fit/step_graphs.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "autodiff/autodiff.h"
#include "graph/build.h"
#include "model/grad_cache.h"
#include "tensor/dynamic_code.h"
#include "transform/attention_biases.h"
#include "transform/chunked_loss.h"
#include "transform/early_updates.h"
#include "transform/fused_rows.h"
#include "transform/gathered_products.h"
#include "transform/head_parts.h"
#include "transform/int8_products.h"
#include "transform/joined_sums.h"
#include "transform/key_value_cache.h"
#include "transform/parameter_shards.h"
#include "transform/partial_sums.h"
#include "transform/recompute.h"
#include "transform/rounded_parameters.h"

namespace plimsoll {
namespace {

// Returns an output of the node with this name.
ValueId find_output(const Graph& graph, std::string_view node_name, std::size_t output) {
  for (const Node& node : graph.nodes()) {
    if (node.name == node_name) return node.outputs.at(output);
  }
  check(false, "the node is in the graph");
  return kNoValue;
}

// The parameters that rows are multiplied by: a word embedding among them is tied to a language model's head.
std::set<std::string> product_weights(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kLinear) names.insert(graph.value(node.inputs[1]).name);
  }
  return names;
}

ParameterFacts parameter_facts(const StepOptions& options, const Graph& graph) {
  std::map<std::string, ParameterSpec> specs;
  for (ParameterSpec& spec : options.definition.specs(options.model)) {
    const std::string name = spec.name;
    specs.emplace(name, std::move(spec));
  }
  // A row of an embedding table has a gradient in few updates, and few rows have one in the same update, so a row's
  // moment would vanish beside the largest moment of the others. So the tables keep floats, as in the Trainer of
  // `transformers`; but the word embedding, by far the largest, is quantized if each of its blocks lies within a row,
  // or if the head gives every row a gradient in every update. A transposed matrix has the same factors, rows for
  // columns.
  return {.factored_shape =
              [specs](const std::string& name) {
                const ParameterSpec& spec = specs.at(name);
                return spec.transposed ? spec.shape : spec.file_shape;
              },
          .takes_codes =
              [specs, coded_from = options.optimizer.coded_from,
               weights = product_weights(graph)](const std::string& name) {
                const ParameterSpec& spec = specs.at(name);
                if (spec.file_shape.elements() < coded_from) return false;
                return !spec.is_embedding() || (spec.part == ParameterSpec::Part::kWordEmbedding &&
                                                (spec.shape[1] % kStateBlock == 0 || weights.contains(name)));
              }};
}

OffloadOptions offload_options(const StepOptions& options) {
  const OpSpeeds& speeds = options.speeds;
  return {.node_seconds = [speeds](const Graph& graph, const Node& node) { return speeds.seconds(graph, node); },
          .read_seconds_per_byte = speeds.offload_read_seconds_per_byte,
          .write_seconds_per_byte = speeds.offload_write_seconds_per_byte,
          .stored = options.stored.get()};
}

// Rounds the graph's products; returns the value where it is then.
ValueId rounded(Graph& graph, ValueId value) {
  const std::string name = graph.node(graph.value(value).producer).name;
  const auto output = static_cast<std::size_t>(graph.value(value).output_index);
  graph = multiply_in_int8(graph);
  return find_output(graph, name, output);
}

// The forward graph of a program that trains, with the teacher's if there is one.
struct TrainedGraph {
  Graph graph;
  std::vector<ValueId> losses{};  // each seeds a gradient
  std::string loss;               // the node of the sum
  std::vector<ValueId> trained{};
};

// A step's two models, as graphs.
struct StudentAndTeacher {
  ModelGraph student, teacher;
  StudentGraph learning;
  TeacherGraph teaching;

  StudentAndTeacher(const StepOptions& options, const ModelCapacity& capacity, ModelGraph learns)
      : student(std::move(learns)),
        teacher(
            options.teacher->definition.build(capacity, /*dropout=*/false, options.teacher->model, options.precision)) {
    if (options.int8_products && options.teacher->model.rounds_activations) {
      teacher.logits = rounded(teacher.graph, teacher.logits);
    }
    learning = {.graph = &student.graph,
                .loss = student.loss,
                .trained = student.trained,
                .layers = options.definition.encoder().layer_outputs()};
    teaching = {.graph = &teacher.graph,
                .logits = teacher.logits,
                .layers = options.teacher->definition.encoder().layer_outputs()};
  }
  StudentAndTeacher(const StudentAndTeacher&) = delete;
  StudentAndTeacher& operator=(const StudentAndTeacher&) = delete;
};

// Builds the model's graph for a program that has a backward, or that must compute the same numbers as one.
ModelGraph built(const ModelDefinition& definition, const ModelCapacity& capacity, bool dropout,
                 const StepOptions& options) {
  ModelGraph model = definition.build(capacity, dropout, options.model, options.precision);
  std::vector<ValueId> values = model.trained;
  values.insert(values.end(), {model.loss, model.logits});
  model.graph = fuse_dropout_casts(fuse_residual_norms(model.graph, values), values);
  model.logits = values.back();
  model.loss = values[values.size() - 2];
  values.resize(model.trained.size());
  model.trained = std::move(values);
  return model;
}

TrainedGraph trained_graph(const StepOptions& options, const ModelCapacity& capacity) {
  ModelGraph model = built(program_definition(ProgramKind::kAccumulate, options), capacity, /*dropout=*/true, options);
  if (!options.teacher) return {std::move(model.graph), {model.loss}, "loss", std::move(model.trained)};
  const StudentAndTeacher pair(options, capacity, std::move(model));
  Distilled both = distil(pair.learning, pair.teaching, options.teacher->distillation, options.teacher->values);
  const std::string loss = both.graph.node(both.graph.value(both.loss).producer).name;
  return {std::move(both.graph), std::move(both.losses), loss, std::move(both.trained)};
}

Gradients append_gradients(TrainedGraph& model) {
  std::vector<Seed> seeds;
  for (const ValueId loss : model.losses) seeds.push_back(loss_seed(model.graph, loss));
  return append_backward(model.graph, seeds, model.trained);
}

}  // namespace

std::vector<TaughtValue> taught_values(const StepOptions& options) {
  if (!options.teacher) return {};
  const ModelCapacity small{.samples = 1, .text_rows = 16};
  const StudentAndTeacher pair(options, small, built(options.definition, small, /*dropout=*/true, options));
  std::vector<TaughtValue> values;
  const Graph& graph = pair.teacher.graph;
  for (const ValueId id : compared_values(pair.learning, pair.teaching, options.teacher->distillation)) {
    const Value& value = graph.value(id);
    const ValueId rows = graph.node(value.producer).row_count;
    check(value.type.shape.rank() == 2 && rows != kNoValue, "what is compared has rows, of which some are used");
    values.push_back({.name = value.name,
                      .dtype = value.type.dtype,
                      .columns = value.type.shape[1],
                      .row_count = graph.value(rows).name});
  }
  return values;
}

ModelDefinition program_definition(ProgramKind kind, const StepOptions& options) {
  if (options.cached_samples == 0 || kind == ProgramKind::kEvaluate || kind == ProgramKind::kGradients) {
    return options.definition;
  }
  if (kind == ProgramKind::kCompare) return comparison_part(options.definition);
  const EmbeddingPass pass = kind == ProgramKind::kEmbed ? EmbeddingPass::kPut : EmbeddingPass::kBack;
  return embedding_part(options.definition, pass, options.cached_samples);
}

std::string_view program_kind_name(ProgramKind kind) {
  static constexpr std::array<std::string_view, kProgramKinds> kNames = {
      "step", "accumulate", "accumulate and step", "evaluate", "gradients", "embed", "compare", "prefill", "decode"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view precision_name(DType precision) {
  return precision == DType::kBF16 ? "bf16" : precision == DType::kF16 ? "fp16" : "fp32";
}

std::string_view update_mode_name(UpdateMode mode) {
  static constexpr std::array<std::string_view, 4> kNames = {"after backward", "in backward", "in a second backward",
                                                             "in backward, the head in parts"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::vector<Recomputation> rank_step_recomputations(const StepOptions& options, const ModelCapacity& capacity,
                                                    const OpSpeeds& speeds) {
  TrainedGraph model = trained_graph(options, capacity);
  append_gradients(model);
  return rank_recomputations(model.graph, options.definition.encoder().layer_outputs(),
                             [&](const Graph& graph, const Node& node) { return speeds.seconds(graph, node); });
}

std::vector<Offloading> rank_step_offloads(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                                           std::int64_t row_capacity) {
  StepOptions plain = options;
  plain.recompute.clear();
  plain.offload.clear();
  plain.update = UpdateMode::kAfterBackward;
  return rank_offloads(build_step_graph(kind, plain, capacity, row_capacity).graph, offload_options(options));
}

namespace {

// Returns the graph with the run's offloads; `layout` is null if places do not matter.
Graph offloaded(Graph graph, const StepOptions& options, OffloadLayout* layout) {
  if (layout == nullptr || options.offload.empty()) return graph;
  return offload(graph, options.offload, offload_options(options), *layout);
}

StepGraph evaluation_graph(const StepOptions& options, const ModelCapacity& capacity, OffloadLayout* layout) {
  ModelGraph model = options.definition.build(capacity, /*dropout=*/false, options.model, options.precision);
  const RankOptions& ranks = options.ranks;
  StepGraph step;
  if (ranks.ranks > 1) {
    step.shards =
        divide_parameters(model.graph, model.trained, ranks, options.optimizer.kind == OptimizerKind::kAdafactor);
  }
  model.graph.mark_output(model.logits);
  for (std::size_t v = 0; v < model.graph.values().size(); ++v) {
    if (options.kept_values.contains(model.graph.values()[v].name)) model.graph.mark_output(static_cast<ValueId>(v));
  }
  if (options.int8_products && options.model.rounds_activations) model.logits = rounded(model.graph, model.logits);
  const std::string name = model.graph.node(model.graph.value(model.logits).producer).name;
  const auto output = static_cast<std::size_t>(model.graph.value(model.logits).output_index);
  step.graph = chunk_loss(model.graph, options.fewest_loss_rows);
  if (ranks.keeps_parameter_shards()) step.graph = shard_parameters(step.graph, step.shards, ranks);
  if (options.rounds_parameters) step.graph = round_parameters(step.graph);
  if (options.keeps_attention_biases) step.graph = keep_attention_biases(step.graph);
  step.graph = offloaded(std::move(step.graph), options, layout);
  step.loss = find_output(step.graph, "loss", 0);
  step.logits = find_output(step.graph, name, output);
  return step;
}

StepGraph generation_graph(const StepOptions& options, const ModelCapacity& capacity, OffloadLayout* layout) {
  ModelGraph model = options.definition.build(capacity, /*dropout=*/false, options.model, options.precision);
  if (options.int8_products && options.model.rounds_activations) model.logits = rounded(model.graph, model.logits);
  // The host reads floats.
  const ValueId rows = model.graph.node(model.graph.value(model.logits).producer).row_count;
  model.logits = cast(model.graph, "next_token_scores", model.logits, DType::kF32, rows);
  model.graph.mark_output(model.logits);
  const std::string name = model.graph.node(model.graph.value(model.logits).producer).name;
  StepGraph step;
  step.graph = cache_keys_and_values(model.graph, capacity.samples * options.cached_tokens);
  if (options.rounds_parameters) step.graph = round_parameters(step.graph);
  step.graph = offloaded(std::move(step.graph), options, layout);
  step.logits = find_output(step.graph, name, 0);
  return step;
}

// Nothing is recomputed here: values keep their numbers, and this program runs once.
StepGraph gradient_graph(const StepOptions& options, const ModelCapacity& capacity) {
  ModelGraph model = built(options.definition, capacity, /*dropout=*/false, options);
  // A language model gives only scores of its logits; here, the whole logits are needed.
  const Node& last = model.graph.node(model.graph.value(model.logits).producer);
  if (last.op == Op::kLabelScores) model.logits = last.inputs[0];
  model.graph.mark_output(model.logits);
  const Seed seed = loss_seed(model.graph, model.loss);
  Gradients gradients = append_backward(model.graph, {&seed, 1}, model.trained);
  for (const auto& [parameter, gradient] : gradients) {
    for (const ValueId part : {gradient.dense, gradient.row_ids, gradient.row_count, gradient.rows}) {
      if (part != kNoValue) model.graph.mark_output(part);
    }
  }
  StepGraph step;
  step.loss = model.loss;
  step.logits = model.logits;
  step.gradients = std::move(gradients);
  step.graph = std::move(model.graph);
  return step;
}

StepGraph embedding_graph(const StepOptions& options, const ModelCapacity& capacity, OffloadLayout* layout) {
  StepGraph step;
  ModelGraph model = built(program_definition(ProgramKind::kEmbed, options), capacity, /*dropout=*/true, options);
  step.graph = offloaded(std::move(model.graph), options, layout);
  return step;
}

StepGraph comparison_graph(const StepOptions& options, const ModelCapacity& capacity, OffloadLayout* layout) {
  ModelGraph model = built(program_definition(ProgramKind::kCompare, options), capacity, /*dropout=*/true, options);
  Graph& graph = model.graph;
  const ValueId table = graph.find_source(kEmbeddingTable);
  const ValueId first = graph.add_input(kFirstSampleInput, {DType::kI32, {1}});  // 0: all rows are here
  std::vector<ValueId> wanted = std::move(model.trained);
  wanted.push_back(table);
  const Seed seed = loss_seed(graph, model.loss);
  Gradients gradients = append_backward(graph, {&seed, 1}, wanted);
  const ValueId rows = gradients.at(table).dense;
  gradients.erase(table);
  graph.add_node({.op = Op::kPutRows,
                  .name = "put_gradients",
                  .inputs = {table, rows, first},
                  .row_count = graph.find_source(input::kSamples),
                  .phase = Phase::kBackward});
  StepGraph step;
  step.graph = offloaded(accumulate_gradients(graph, 0, gradients), options, layout);
  step.loss = find_output(step.graph, "loss", 0);
  return step;
}

// Adds the gradients of the head's parameters, which the comparison has left in states.
void add_head_gradients(Graph& graph, const StepOptions& options, Gradients& gradients) {
  for (const ParameterSpec& spec : options.definition.specs(options.model)) {
    if (!spec.is_head() || !spec.trains) continue;
    const TensorType type{wide(options.precision), spec.shape};
    gradients[graph.find_source(spec.name)] = {.dense = graph.add_state(gradient_state_name(spec.name), type)};
  }
}

}  // namespace

StepGraph build_step_graph(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                           std::int64_t row_capacity, OffloadLayout* layout) {
  if (kind == ProgramKind::kEvaluate) return evaluation_graph(options, capacity, layout);
  if (kind == ProgramKind::kGradients) return gradient_graph(options, capacity);
  if (kind == ProgramKind::kEmbed) return embedding_graph(options, capacity, layout);
  if (kind == ProgramKind::kCompare) return comparison_graph(options, capacity, layout);
  if (kind == ProgramKind::kPrefill || kind == ProgramKind::kDecode) {
    return generation_graph(options, capacity, layout);
  }
  TrainedGraph model = trained_graph(options, capacity);
  StepGraph step;
  const RankOptions& ranks = options.ranks;
  if (ranks.ranks > 1) {
    step.shards =
        divide_parameters(model.graph, model.trained, ranks, options.optimizer.kind == OptimizerKind::kAdafactor);
  }
  Gradients gradients = append_gradients(model);
  Graph graph = std::move(model.graph);
  ParameterFacts facts = parameter_facts(options, graph);
  if (ranks.ranks > 1) {
    facts.shards = &step.shards;
    facts.updates_shards = ranks.updates_shards();
  }
  const bool sums_first = ranks.ranks > 1 && ranks.sums_each_micro_batch;
  if (sums_first) graph = sum_over_ranks(graph, gradients, step.shards, ranks);
  // If rows are summed over ranks in each micro-batch, they are those of all ranks.
  if (sums_first) row_capacity *= ranks.ranks;
  if (kind != ProgramKind::kStep) graph = accumulate_gradients(graph, row_capacity, gradients);
  if (ranks.ranks > 1 && !sums_first && kind != ProgramKind::kAccumulate) {
    graph = sum_over_ranks(graph, gradients, step.shards, ranks);
  }
  if (options.cached_samples > 0 && kind != ProgramKind::kAccumulate) add_head_gradients(graph, options, gradients);
  if (kind != ProgramKind::kAccumulate) {
    OptimizerOptions optimizer = options.optimizer;
    optimizer.updates_early = kind == ProgramKind::kStep && updates_in_backward(options.update);
    append_optimizer(graph, gradients, optimizer, facts);
    const bool in_parts = options.update == UpdateMode::kHeadInParts;
    if (optimizer.updates_early && in_parts) {
      graph = update_head_in_parts(graph, kHeadParts, options.fewest_loss_rows);
    }
  }
  graph = chunk_loss(graph, options.fewest_loss_rows);
  // This comes before nodes move: a product moves to the place of the sum, which later may be after its weight's
  // update.
  if (options.adds_to_products) {
    graph = fuse_gradient_sums(graph, [](const Graph& of, const Node& product) {
      return of.type(product.inputs[0]).dtype == of.type(product.inputs[1]).dtype;
    });
  }
  if (options.recompute_cheap) graph = recompute(graph, recompute_policy(options.recompute));
  if (kind == ProgramKind::kStep && options.update != UpdateMode::kAfterBackward) {
    if (options.update == UpdateMode::kTwoPasses) graph = repeat_backward(graph);
    graph = update_early(graph);
  }
  // A gradient that is made earlier waits for its update; where updates come early, gradients are meant to die soon.
  if (options.batches_products && (kind != ProgramKind::kStep || options.update == UpdateMode::kAfterBackward)) {
    graph = gather_products(graph);
  }
  if (kind != ProgramKind::kAccumulate) graph = join_sums(graph);
  // This comes last, because ranks update different parameters, but must exchange in one order.
  if (kind != ProgramKind::kAccumulate && ranks.updates_shards()) gather_parameters(graph, step.shards, ranks);
  if (ranks.keeps_parameter_shards()) graph = shard_parameters(graph, step.shards, ranks);
  if (options.rounds_parameters) graph = round_parameters(graph);
  if (options.partial_sums) graph = add_sums_late(graph, options.partial_sums);
  if (options.keeps_attention_biases) graph = keep_attention_biases(graph);
  step.graph = offloaded(std::move(graph), options, layout);
  step.loss = find_output(step.graph, model.loss, 0);
  if (kind != ProgramKind::kAccumulate) step.gradient_norm = find_output(step.graph, "gradient_norm", 0);
  return step;
}

}  // namespace plimsoll
