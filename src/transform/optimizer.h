// From gradients to updated parameters, as nodes: accumulation over micro-batches, global-norm clipping, AdamW.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "autodiff/autodiff.h"
#include "graph/graph.h"

namespace plimsoll {

// Gradients as the next transform sees them.
using Gradients = std::map<ValueId, Gradient>;  // parameter -> gradient

// Sums each gradient into a persistent state "<parameter>.gradient" (rows: ".gradient_ids", ".gradient_count",
// ".gradient_rows" with room for `row_capacity` rows, at most the table's). The input i32[1] "keep_gradients" is 0 in the
// first micro-batch of an update. A weight gradient is summed inside its product. Returns the rewritten graph; `gradients` is
// replaced by the sums in it.
Graph accumulate_gradients(const Graph& graph, std::int64_t row_capacity, Gradients& gradients);

struct OptimizerOptions {
  AdamWAttributes adamw;
  // False: gradients are never clipped. The norm is computed all the same, but no update waits for it.
  bool clips = true;
  // Weight decay of this parameter; by default none for biases and layer norms (as the `transformers` Trainer does).
  std::function<bool(const std::string& parameter)> decays;
};
// False for biases and layer norms, by the name patterns of the `transformers` Trainer (get_decay_parameter_names).
bool decays_by_default(const std::string& parameter);

// The input f32[1] scalars that the update reads each step.
inline constexpr const char* kLearningRateInput = "learning_rate";
inline constexpr const char* kStepInput = "step";  // i32[1], 1 for the first update
inline constexpr const char* kMaxGradNormInput = "max_grad_norm";
// Every gradient is multiplied by it where OptimizerOptions::clips is false.
inline constexpr const char* kGradientScaleInput = "gradient_scale";
// i32[1], 0 in the first micro-batch of an update; read by accumulate_gradients.
inline constexpr const char* kKeepGradientsInput = "keep_gradients";
// Appends, in Phase::kUpdate: the norm over all gradients, the clip factor, and AdamW for each parameter with its states
// "<parameter>.exp_avg" and "<parameter>.exp_avg_sq". Returns the norm (before clipping), marked as an output.
ValueId append_adamw(Graph& graph, const Gradients& gradients, const OptimizerOptions& options);

}  // namespace plimsoll
