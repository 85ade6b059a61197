// The graphs of a training run, from the model's forward graph: backward, accumulation, update, cheap recomputation.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "model/layoutlmv3.h"
#include "plan/cost.h"
#include "transform/offload.h"
#include "transform/optimizer.h"
#include "transform/recompute_choice.h"

namespace plimsoll {

enum class ProgramKind : std::uint8_t {
  kStep,                // one micro-batch is the whole update: gradients live inside the step
  kAccumulate,          // a micro-batch that is not the last of its update: gradients are summed into states
  kAccumulateAndStep,   // the last micro-batch: sums, clips, updates
  kEvaluate,            // forward without dropout; logits are an output
  kGradients            // forward and backward without dropout; logits and every gradient are outputs
};
std::string_view program_kind_name(ProgramKind kind);

// When a step whose micro-batch is the whole update changes the parameters.
enum class UpdateMode : std::uint8_t {
  kAfterBackward,  // gradients wait for the last one, and for the norm if they are clipped
  kInBackward,     // each as soon as it is complete; gradients are not clipped
  kTwoPasses       // backward runs twice: the first pass measures the norm, the second one updates
};
std::string_view update_mode_name(UpdateMode mode);

// "fp32", "bf16" or "fp16".
std::string_view precision_name(DType precision);

struct StepOptions {
  LayoutLMv3Config config;
  ModelOptions model;
  OptimizerOptions optimizer;
  DType precision = DType::kF32;  // of the encoder's activations: F32, BF16 or F16
  UpdateMode update = UpdateMode::kAfterBackward;  // of kStep
  std::set<std::string> recompute{};  // forward nodes that run again in backward, beside the cheap ones
  bool recompute_cheap = true;        // false: nothing runs again, to measure what that saves
  std::set<std::string> offload{};    // updates and forward values of rank_offloads
  OpSpeeds speeds{};                  // by which transfers are placed among the nodes
};

struct StepGraph {
  Graph graph;
  ValueId loss = kNoValue;
  ValueId logits = kNoValue;   // kEvaluate and kGradients; elsewhere its bytes become its gradient
  ValueId gradient_norm = kNoValue;  // kinds that update
  Gradients gradients;         // kGradients: all outputs
};

// What a training step of that capacity could compute again, best first; never further back than a layer.
std::vector<Recomputation> rank_step_recomputations(const StepOptions& options, const ModelCapacity& capacity,
                                                    const OpSpeeds& speeds);

// What a training step of that capacity, of micro-batches that are the whole update or not, could offload.
std::vector<Offloading> rank_step_offloads(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                                           std::int64_t row_capacity);

// `row_capacity`: the most distinct word rows that an update can touch, for the accumulated word-embedding gradient.
// `layout`: where what is offloaded lies, one for all programs of a run; nullptr: nothing is.
StepGraph build_step_graph(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                           std::int64_t row_capacity, OffloadLayout* layout = nullptr);

}  // namespace plimsoll
