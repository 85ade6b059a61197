// Builds the graphs of a training run from the model's forward graph: backward, accumulation, update, recomputation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "model/definition.h"
#include "plan/cost.h"
#include "transform/chunked_loss.h"
#include "transform/data_parallel.h"
#include "transform/distillation.h"
#include "transform/offload.h"
#include "transform/optimizer.h"
#include "transform/partial_sums.h"
#include "transform/recompute_choice.h"

namespace plimsoll {

enum class ProgramKind : std::uint8_t {
  kStep,               // one micro-batch is the whole update: gradients live inside the step
  kAccumulate,         // a micro-batch that is not the last of its update: gradients are summed into states
  kAccumulateAndStep,  // the last micro-batch: sums, clips, updates
  kEvaluate,           // forward without dropout; logits are an output
  kGradients,          // forward and backward without dropout; logits and every gradient are outputs
  kEmbed,              // with GradCache (model/grad_cache.h): a chunk's embeddings are put into the table
  kCompare,            // then the head, of all samples of an update: loss, and the embeddings' gradients in the table
  kPrefill,            // generation: rows of prompts are read, their keys and values kept (transform/key_value_cache.h)
  kDecode              // then a row of each text, which gives the next token; logits are an output of both
};
inline constexpr std::size_t kProgramKinds = 9;
std::string_view program_kind_name(ProgramKind kind);

// When a step whose micro-batch is the whole update changes the parameters.
enum class UpdateMode : std::uint8_t {
  kAfterBackward,  // gradients wait for the last one, and for the norm if they are clipped
  kInBackward,     // each gradient is used as soon as it is complete; no clipping
  kTwoPasses,      // backward runs twice: the first pass measures the norm, the second one updates
  kHeadInParts     // in backward, except that a vocabulary's head is updated in parts after it (transform/head_parts.h)
};
std::string_view update_mode_name(UpdateMode mode);
// True if updates happen while backward may still fail, and none waits for the norm of all gradients.
constexpr bool updates_in_backward(UpdateMode mode) {
  return mode == UpdateMode::kInBackward || mode == UpdateMode::kHeadInParts;
}

// Returns "fp32", "bf16" or "fp16".
std::string_view precision_name(DType precision);

// The teacher that a model learns from besides its labels.
struct TeacherOptions {
  ModelDefinition definition;
  ModelOptions model{};  // no part of it trains
  DistillationOptions distillation{};
  TeacherValues values = TeacherValues::kComputed;
};

// A tensor that the teacher computes and the student is compared with.
struct TaughtValue {
  std::string name;  // in the teacher's graph
  DType dtype = DType::kF32;
  std::int64_t columns = 0;
  std::string row_count;  // the input that says how many of its rows are used: one of tensor/input_spec.h
};

struct StepOptions {
  ModelDefinition definition;
  ModelOptions model;
  OptimizerOptions optimizer;
  DType precision = DType::kF32;                   // type of the encoder's activations: F32, BF16 or F16
  UpdateMode update = UpdateMode::kAfterBackward;  // applies to kStep
  std::set<std::string> recompute{};               // forward nodes recomputed in backward, besides the cheap ones
  bool recompute_cheap = true;                     // false: recomputes nothing, to measure what it saves
  std::set<std::string> offload{};                 // updates and activations of rank_offloads
  // Parameters that may be offloaded without being stored, because a file already has them and they never change.
  // nullptr: none.
  std::shared_ptr<const std::map<std::string, StoredTensor>> stored{};
  OpSpeeds speeds{};                                // used to place transfers among the nodes
  std::optional<TeacherOptions> teacher{};          // of programs that train
  RankOptions ranks{};                              // the processes that train together
  bool int8_products = false;                       // ModelOptions::rounds_activations pays
  bool adds_to_products = false;                    // Backend::adds_to_products of the rows' type
  bool batches_products = false;                    // Backend::batches_products
  PartialSumsOf partial_sums{};                     // Backend::parts_of_sums; nothing: sums are whole
  bool rounds_parameters = false;                   // Backend::rounds_parameters
  std::int64_t fewest_loss_rows = kFewestLossRows;  // Backend::fewest_loss_rows
  bool keeps_attention_biases = false;              // made once per program (transform/attention_biases.h)
  std::set<std::string> kept_values{};              // of kEvaluate: names of values that are outputs too
  // Samples of an update, for the programs of GradCache: kEmbed, kCompare and the two that accumulate, whose capacity's
  // samples are single pages; 0: no GradCache.
  std::int64_t cached_samples = 0;
  std::int64_t cached_tokens = 0;  // for kPrefill and kDecode: rows of the caches for each text
};

struct StepGraph {
  Graph graph;
  ValueId loss = kNoValue;           // kNoValue for kEmbed; with GradCache, kCompare has it
  ValueId logits = kNoValue;         // for kEvaluate and kGradients; elsewhere its bytes become its gradient
  ValueId gradient_norm = kNoValue;  // for kinds that update
  Gradients gradients;               // for kGradients: all outputs
  Shards shards;                     // for kinds that train, if there are several ranks
};

// Returns what a step with `options.teacher` compares; empty without a teacher.
std::vector<TaughtValue> taught_values(const StepOptions& options);

// Returns what a program of that kind runs: the model, or with GradCache a part of it.
ModelDefinition program_definition(ProgramKind kind, const StepOptions& options);

// Ranks what a training step of that capacity could recompute, best first; never further back than a layer.
std::vector<Recomputation> rank_step_recomputations(const StepOptions& options, const ModelCapacity& capacity,
                                                    const OpSpeeds& speeds);

// Ranks what a training step of that capacity could offload; `kind` says whether its micro-batch is the whole update.
std::vector<Offloading> rank_step_offloads(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                                           std::int64_t row_capacity);

// `row_capacity` is the most distinct word rows that an update can touch, for the accumulated word-embedding gradient.
// `layout`, one for all programs of a run, says where offloaded tensors are; nullptr: none are offloaded.
StepGraph build_step_graph(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                           std::int64_t row_capacity, OffloadLayout* layout = nullptr);

}  // namespace plimsoll
