// From gradients to updated parameters, as nodes: accumulation over micro-batches, global-norm clipping, the optimizer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "autodiff/autodiff.h"
#include "graph/graph.h"

namespace plimsoll {

// Gradients as the next transform sees them.
using Gradients = std::map<ValueId, Gradient>;  // parameter -> gradient

// Sums each gradient into a persistent state "<parameter>.gradient" (rows: ".gradient_ids", ".gradient_count",
// ".gradient_rows" with room for `row_capacity` rows, at most the table's). The input i32[1] "keep_gradients" is 0 in
// the first micro-batch of an update. A weight gradient is summed inside its product. Returns the rewritten graph;
// `gradients` is replaced by the sums in it.
Graph accumulate_gradients(const Graph& graph, std::int64_t row_capacity, Gradients& gradients);

enum class OptimizerKind : std::uint8_t {
  kAdamW,      // two moments, 8 bytes a parameter
  kAdamW8bit,  // the same in 8-bit codes, 2.03 bytes a parameter; some tensors' moments stay as they are
  kAdafactor   // means of rows and of columns of the squared gradient; next to nothing
};
// As the `transformers` Trainer's --optim has them: "adamw_torch", "adamw_8bit", "adafactor".
std::string_view optimizer_name(OptimizerKind kind);
// Throws UsageError.
OptimizerKind parse_optimizer(std::string_view name);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // Tensors with fewer elements keep the moments of AdamW as floats: they are few bytes, and often delicate.
  std::int64_t coded_from = 4096;
  AdamWAttributes adamw;  // of both kinds of AdamW; the weight decay is Adafactor's, too
  // False: gradients are never clipped. The norm is computed all the same.
  bool clips = true;
  // Gradients are those of a loss that was multiplied by a scale: updates wait for the norm, take the scale away, and
  // are left out where a gradient has overflowed.
  bool unscales = false;
  // Where no update waits for the norm of all gradients (UpdateMode::kInBackward): each waits for that of its own, so
  // that a gradient which is not finite changes nothing. Otherwise one such gradient keeps all updates from changing
  // anything.
  bool updates_early = false;
  // Weight decay of this parameter; by default none for biases and layer norms (as the `transformers` Trainer does).
  std::function<bool(const std::string& parameter)> decays;

  bool waits_for_norm() const { return clips || unscales; }
};
// What an optimizer has to know of the parameters beyond the graph.
struct ParameterFacts {
  // The shape by whose last two dimensions Adafactor factors a parameter with a dense gradient, of as many elements as
  // the graph's; by default the graph's own.
  std::function<Shape(const std::string& parameter)> factored_shape{};
  // Whether kAdamW8bit holds the moments of a parameter of coded_from elements or more in codes; by default it does.
  std::function<bool(const std::string& parameter)> takes_codes{};
};
// False for biases and layer norms, by the name patterns of the `transformers` Trainer (get_decay_parameter_names).
bool decays_by_default(const std::string& parameter);

// The input f32[1] scalars that the update reads each step.
inline constexpr const char* kLearningRateInput = "learning_rate";
inline constexpr const char* kStepInput = "step";  // i32[1], 1 for the first update
inline constexpr const char* kMaxGradNormInput = "max_grad_norm";
// One over the loss scale, where OptimizerOptions::unscales.
inline constexpr const char* kUnscaleInput = "unscale";
// i32[1], 0 in the first micro-batch of an update; read by accumulate_gradients.
inline constexpr const char* kKeepGradientsInput = "keep_gradients";
// Appends, in Phase::kUpdate: the norm over all gradients, the clip factor, and an update for each parameter with its
// states. All states begin as zero bytes. Their names:
//   "<parameter>.exp_avg", "<parameter>.exp_avg_sq"                of AdamW; in 8 bits both with an ".absmax"
//   "<parameter>.exp_avg_sq_row", "<parameter>.exp_avg_sq_col"     of Adafactor; "<parameter>.exp_avg_sq" for a vector
//   "<parameter>.low"                                              the rest of a parameter of BF16
//   (tensor/split_float.h)
// Returns the norm (before clipping), marked as an output.
ValueId append_optimizer(Graph& graph, const Gradients& gradients, const OptimizerOptions& options,
                         const ParameterFacts& facts = {});

// True for the names above but ".low", which belongs to the parameter's value.
bool is_optimizer_state(std::string_view name);
// Of optimizer states: whether it holds a moment in codes, or what belongs to one.
bool is_coded_state(std::string_view name, const TensorType& type);
inline constexpr std::string_view kLowHalfSuffix = ".low";

}  // namespace plimsoll
