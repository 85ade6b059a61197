#include "train/initial_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/counted.h"
#include "base/hash.h"
#include "train/evaluation.h"
#include "train/run_schedule.h"

namespace plimsoll {
namespace {

// Identifies a data set by how its pages are cut into windows.
std::string fingerprint(std::span<const Example> examples) {
  std::uint64_t hash = 0;
  for (const Example& e : examples) {
    const std::array<std::uint32_t, 4> values = {e.page, e.begin, e.tokens, e.loss_terms};
    hash = hash_bytes(std::as_bytes(std::span(values)), hash);
  }
  return hash_digits(hash);
}

// Returns a fingerprint of the base model's weights, which an adapter needs and does not contain; empty without
// adapters.
std::string base_fingerprint(const ModelBundle& bundle) {
  if (!bundle.options.lora.enabled() || bundle.weights == nullptr) return {};
  return bundle.weights->fingerprint();
}

std::string teacher_fingerprint(const ModelBundle& teacher) {
  return teacher.weights->fingerprint() + (teacher.adapter ? " with " + teacher.adapter->fingerprint() : "");
}

// Describes the teacher as text; empty without one.
std::string teacher_text(const TrainOptions& options) {
  if (options.teacher == nullptr) return {};
  const DistillationOptions& by = options.distillation;
  const ModelBundle& teacher = *options.teacher;
  return fmt::format(", taught by {} in {} with {} of logits at {}, {} of states, {} of relations, as means over rows",
                     teacher_fingerprint(teacher), dtype_name(teacher.options.frozen_weights), by.logits,
                     by.temperature, by.hidden, by.relations);
}

// Describes what trains as text; empty if all parameters train.
std::string parts_text(const ModelOptions& options) {
  std::string text;
  for (const std::string& pattern : options.freeze) text += fmt::format(", frozen {}", pattern);
  const LoraOptions& lora = options.lora;
  if (!lora.enabled()) return text;
  text += fmt::format(", adapters of rank {}, alpha {}, dropout {}, on {}", lora.rank, lora.alpha, lora.dropout,
                      counted(lora.modules.size(), "map"));
  if (lora.rslora) text += ", rank-stabilized";
  if (lora.dora) text += ", DoRA";
  for (const std::string& module : lora.saved) text += fmt::format(", with {}", module);
  for (const auto& [module, rank] : lora.ranks) text += fmt::format(", rank {} of {}", rank, module);
  for (const auto& [module, alpha] : lora.alphas) text += fmt::format(", alpha {} of {}", alpha, module);
  return text;
}

// Lists the options that change results and differ from their defaults: old checkpoints do not record them.
std::string unusual_options(const TrainOptions& options, const LossOptions& loss) {
  const TrainOptions usual;
  std::string text;
  const auto add = [&text](const char* name, const auto& value, const auto& usually) {
    if (value != usually) text += fmt::format(", {} {}", name, value);
  };
  add("adam_beta1", options.adam_beta1, usual.adam_beta1);
  add("adam_beta2", options.adam_beta2, usual.adam_beta2);
  add("adam_epsilon", options.adam_epsilon, usual.adam_epsilon);
  add("label smoothing", loss.label_smoothing, 0.0);
  add("focal gamma", loss.focal_gamma, 0.0);
  if (!loss.class_weights.empty()) text += fmt::format(", class weights {}", fmt::join(loss.class_weights, " "));
  add("data_seed", options.data_seed.value_or(options.seed), options.seed);
  add("batches without the last of", options.drop_last_of, usual.drop_last_of);
  add("layer-wise decay", options.rates.layer_decay, usual.rates.layer_decay);
  for (const auto& [pattern, rate] : options.rates.rates) text += fmt::format(", rate {} of {}", rate, pattern);
  if (options.sampling == SampleOrder::kSequential) text += ", pages in the data's order";
  if (options.sampling == SampleOrder::kByLength) text += ", pages grouped by length";
  return text;
}

// Returns the options that change results, as text.
std::string options_text(const TrainOptions& options, const ModelOptions& model, const LossOptions& loss,
                         bool augments) {
  return fmt::format("learning rate {} ({}, warm-up {}), weight decay {}, gradient norm at most {}, {}",
                     options.learning_rate, schedule_text(options.schedule), options.warmup_ratio, options.weight_decay,
                     options.max_grad_norm, precision_name(options.precision)) +
         unusual_options(options, loss) +
         (options.warmup_steps > 0 ? ", warm-up of " + counted(options.warmup_steps, "update") : "") +
         parts_text(model) + teacher_text(options) + (augments ? ", augmented" : "");
}

// Says when several ranks sum the gradients of an update of several micro-batches; empty for other runs.
std::string gradient_sync(const PlanSummary& plan) {
  if (plan.ranks == 1 || plan.accumulation_steps == 1) return {};
  return plan.sums_each_micro_batch ? "micro-batch" : "update";
}

}  // namespace

std::string judged_by(const ModelBundle& bundle, const Dataset& evaluation, const TrainOptions& options) {
  return fmt::format("{}, on {}/{}", metric_name(bundle, options.metric_for_best_model),
                     hash_digits(evaluation.fingerprint().tokens), hash_digits(evaluation.fingerprint().labels));
}

TrainerState initial_state(const Session& session, const ModelBundle& bundle, const Dataset& pages,
                           const Dataset* evaluation, const Sampler& sampler, const TrainOptions& options,
                           int threads) {
  return {
      .step = 0,
      .total_steps = total_steps(options, sampler.updates_per_epoch()),
      .seed = options.seed,
      .train_batch_size = options.train_batch_size,
      .micro_batch_size = session.plan().levers.micro_batch_size,
      .chunk_samples = session.plan().levers.chunk_samples,
      .ranks = options.ranks,
      .gradient_sync = gradient_sync(session.plan()),
      .examples = static_cast<std::int64_t>(sampler.size()),
      .max_length = pages.options().windows.max_length,
      .device = session.plan().on_device ? "cuda" : "cpu",
      .threads = threads,
      .optimizer = std::string(optimizer_name(options.optim)),
      .data = fingerprint(pages.examples()),
      .tokens = hash_digits(pages.fingerprint().tokens),
      .labels = hash_digits(pages.fingerprint().labels),
      .images = hash_digits(pages.fingerprint().images),
      .base = base_fingerprint(bundle),
      .options = options_text(options, bundle.options, bundle.config.task.loss, pages.options().augment.has_value()),
      .scaler = {},
      .best_metric = std::nullopt,
      .best_step = 0,
      .judged_by = evaluation != nullptr ? judged_by(bundle, *evaluation, options) : std::string(),
      .greater_is_better = options.greater_is_better,
      .evaluations_without_gain = 0,
      .adapted_rate = std::nullopt,
      .evaluation_due = false,
      .only_model = false,
      .skipped_pages = {},
      .choices = session.choices()};
}

}  // namespace plimsoll
