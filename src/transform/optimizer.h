// Builds the nodes from gradients to updated parameters: accumulation over micro-batches, clipping, the optimizer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "autodiff/autodiff.h"
#include "graph/graph.h"
#include "transform/shards.h"

namespace plimsoll {

// The gradients that one transform passes to the next.
using Gradients = std::map<ValueId, Gradient>;  // parameter -> gradient

// Sums each gradient into a persistent state "<parameter>.gradient" (rows: ".gradient_ids", ".gradient_count",
// ".gradient_rows" with room for `row_capacity` rows, at most the table's). The input i32[1] "keep_gradients" is 0 in
// the first micro-batch of an update. A weight gradient is summed inside its product. Returns the rewritten graph;
// `gradients` is replaced by the sums in it.
Graph accumulate_gradients(const Graph& graph, std::int64_t row_capacity, Gradients& gradients);
// The state that a dense gradient is summed into.
std::string gradient_state_name(std::string_view parameter);

enum class OptimizerKind : std::uint8_t {
  kAdamW,      // two moments, 8 bytes per parameter
  kAdamW8bit,  // the same in 8-bit codes, 2.03 bytes per parameter; some tensors keep floats
  kAdafactor   // row and column means of the squared gradient; almost no memory
};
// Returns the name that the `transformers` Trainer's --optim uses: "adamw_torch", "adamw_8bit", "adafactor".
std::string_view optimizer_name(OptimizerKind kind);
// Throws UsageError.
OptimizerKind parse_optimizer(std::string_view name);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // Tensors with fewer elements keep AdamW's moments as floats: they take few bytes and are often sensitive.
  std::int64_t coded_from = 4096;
  AdamWAttributes adamw;  // for both kinds of AdamW; Adafactor uses its weight decay
  // If false, gradients are never clipped. The norm is computed all the same.
  bool clips = true;
  // If true, the loss was multiplied by a scale: updates wait for the norm, divide by the scale, and are skipped if a
  // gradient has overflowed.
  bool unscales = false;
  // If true, no update waits for the norm of all gradients (UpdateMode::kInBackward): each waits for that of its own,
  // so that a NaN or infinite gradient changes nothing. Otherwise one such gradient keeps all updates from changing
  // anything.
  bool updates_early = false;
  // Says whether a parameter decays; by default biases and layer norms do not (as in the `transformers` Trainer).
  std::function<bool(const std::string& parameter)> decays;
  // The factor of a parameter's learning rate; 1 by default.
  std::function<double(const std::string& parameter)> rate_factor{};

  bool waits_for_norm() const { return clips || unscales; }
};
// Facts about the parameters that the optimizer needs beyond the graph.
struct ParameterFacts {
  // The shape whose last two dimensions Adafactor uses to factor a parameter with a dense gradient; it has as many
  // elements as the graph's shape, the default.
  std::function<Shape(const std::string& parameter)> factored_shape{};
  // Says whether kAdamW8bit codes the moments of a parameter; by default if it has coded_from elements or more.
  std::function<bool(const std::string& parameter)> takes_codes{};
  // Set if gradients were summed over ranks (transform/data_parallel.h): what each rank owns, and whether it updates
  // only that. The norm is the sum of what each rank finds for its own elements, in the order of ranks.
  const Shards* shards = nullptr;
  bool updates_shards = false;
};
// False for biases and layer norms, by the name patterns of the `transformers` Trainer (get_decay_parameter_names).
bool decays_by_default(const std::string& parameter);
// Return the weight decay of a parameter, and the factor of its learning rate.
double weight_decay_of(const OptimizerOptions& options, const std::string& parameter);
double rate_factor_of(const OptimizerOptions& options, const std::string& parameter);

// The names of the f32[1] inputs that the update reads each step.
inline constexpr const char* kLearningRateInput = "learning_rate";
inline constexpr const char* kStepInput = "step";  // i32[1], 1 for the first update
inline constexpr const char* kMaxGradNormInput = "max_grad_norm";
// One over the loss scale, used if OptimizerOptions::unscales.
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

// True for the names above except ".low", which belongs to the parameter's value.
bool is_optimizer_state(std::string_view name);
// True for an optimizer state that holds a moment in codes, or belongs to one.
bool is_coded_state(std::string_view name, const TensorType& type);
inline constexpr std::string_view kLowHalfSuffix = ".low";
// The name of the node that updates a parameter.
inline std::string update_name(const std::string& parameter) { return parameter + ".update"; }

}  // namespace plimsoll
