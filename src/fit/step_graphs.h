// The graphs of a training run, from the model's forward graph: backward, accumulation, update, cheap recomputation.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.h"
#include "model/layoutlmv3.h"
#include "transform/optimizer.h"

namespace plimsoll {

enum class ProgramKind : std::uint8_t {
  kStep,                // one micro-batch is the whole update: gradients live inside the step
  kAccumulate,          // a micro-batch that is not the last of its update: gradients are summed into states
  kAccumulateAndStep,   // the last micro-batch: sums, clips, updates
  kEvaluate,            // forward without dropout; logits are an output
  kGradients            // forward and backward without dropout; logits and every gradient are outputs
};
std::string_view program_kind_name(ProgramKind kind);

struct StepOptions {
  LayoutLMv3Config config;
  ModelOptions model;
  OptimizerOptions optimizer;
};

struct StepGraph {
  Graph graph;
  ValueId loss = kNoValue;
  ValueId logits = kNoValue;   // kEvaluate and kGradients; elsewhere its bytes become its gradient
  ValueId gradient_norm = kNoValue;  // kinds that update
  Gradients gradients;         // kGradients: all outputs
};

// `row_capacity`: the most distinct word rows that an update can touch, for the accumulated word-embedding gradient.
StepGraph build_step_graph(ProgramKind kind, const StepOptions& options, const ModelCapacity& capacity,
                           std::int64_t row_capacity);

}  // namespace plimsoll
