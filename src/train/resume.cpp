#include "train/resume.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "train/skipped_pages.h"

namespace plimsoll {

bool stops_early(const TrainOptions& options, const TrainerState& state) {
  return options.early_stopping_patience > 0 && state.evaluations_without_gain >= options.early_stopping_patience;
}

bool is_done(const TrainOptions& options, const TrainerState& state) {
  return !state.evaluation_due && (state.step >= state.total_steps || stops_early(options, state));
}

std::string resume_changes(const TrainerState& then, const TrainerState& now) {
  std::string changes;
  const auto differs = [&](const char* what, const auto& old, const auto& current) {
    if (old != current)
      changes += fmt::format("{}{}: {} then, {} now", changes.empty() ? "" : "; ", what, old, current);
  };
  differs("--seed", then.seed, now.seed);
  differs("--train-batch-size", then.train_batch_size, now.train_batch_size);
  differs("micro-batch", then.micro_batch_size, now.micro_batch_size);
  differs("pages of a chunk", then.chunk_samples, now.chunk_samples);
  differs("ranks", then.ranks, now.ranks);
  if (then.ranks == now.ranks && then.gradient_sync != now.gradient_sync) {
    differs("--gradient-sync", then.gradient_sync, now.gradient_sync);
  }
  differs("windows of training data", then.examples, now.examples);
  differs("--max-length", then.max_length, now.max_length);
  differs("updates in all", then.total_steps, now.total_steps);
  if (!then.device.empty()) differs("device", then.device, now.device);
  if (then.device.empty() || then.device == now.device) differs("threads", then.threads, now.threads);
  if (!then.options.empty()) differs("options", then.options, now.options);
  const auto changed = [&](const char* what, const std::string& old, const std::string& current) {
    if (!old.empty() && old != current) changes += fmt::format("{}{}", changes.empty() ? "" : "; ", what);
    return !old.empty() && old != current;
  };
  // Other windows also have other tokens and labels: that counts as one change, not three.
  if (then.examples == now.examples && !changed("other training data", then.data, now.data)) {
    changed("other words or boxes in the training data", then.tokens, now.tokens);
    changed("other labels on the words of the training data", then.labels, now.labels);
    // Skipped pages are not compared: their pictures may have changed since.
    if (indices_of(then.skipped_pages, false).empty()) {
      changed("other pictures in the training data", then.images, now.images);
    }
  }
  changed("other weights of the adapter's base model", then.base, now.base);
  return changes;
}

bool judged_alike(const TrainerState& then, const TrainerState& now) {
  // A direction that is not given is the metric's own; one that is given may be the same.
  const bool directions_differ =
      then.greater_is_better && now.greater_is_better && *then.greater_is_better != *now.greater_is_better;
  if (then.judged_by.empty() || now.judged_by.empty()) return true;
  return then.judged_by == now.judged_by && !directions_differ;
}

TrainerState resumed_state(const TrainerState& saved, TrainerState initial, bool evaluates) {
  TrainerState state = std::move(initial);
  state.step = saved.step;
  // Skipped updates stay skipped for the schedule, whatever the precision is now.
  state.scaler = saved.scaler;
  state.interval_loss = saved.interval_loss;
  state.interval_steps = saved.interval_steps;
  const bool judges_alike = judged_alike(saved, state);
  if (state.judged_by.empty()) state.judged_by = saved.judged_by;
  if (judges_alike) {
    state.best_metric = saved.best_metric;
    state.best_step = saved.best_step;
    state.evaluations_without_gain = saved.evaluations_without_gain;
  }
  state.adapted_rate = saved.adapted_rate;
  if (state.adapted_rate && !judges_alike) state.adapted_rate = AdaptedRate{.rate = saved.adapted_rate->rate};
  state.evaluation_due = saved.evaluation_due && evaluates;
  state.skipped_pages = saved.skipped_pages;
  return state;
}

TrainerState resume(const std::filesystem::path& checkpoint, TrainerState initial, const TrainOptions& options,
                    bool evaluates, RunMemory& memory) {
  const TrainerState saved = read_trainer_state(checkpoint);
  if (saved.only_model) {
    throw UsageError({.what = "the checkpoint holds the model without the optimizer's state",
                      .where = fmt::format("--resume-from-checkpoint, {}", checkpoint.string()),
                      .found = "a checkpoint of a run with --save-only-model",
                      .allowed = "a checkpoint of a run without it",
                      .remedy = fmt::format("start a new run from its weights with --model {}", checkpoint.string())});
  }
  if (saved.optimizer != initial.optimizer) {
    throw UsageError(
        {.what = "the checkpoint holds the state of another optimizer",
         .where = fmt::format("--optim, {}", checkpoint.string()),
         .found = fmt::format("{} requested, {} in the checkpoint", initial.optimizer, saved.optimizer),
         .allowed = fmt::format("--optim {}", saved.optimizer),
         .remedy = fmt::format("pass that, or start a new run from its weights with --model {}", checkpoint.string())});
  }
  try {
    memory.fill_from(checkpoint, initial.seed);
  } catch (const DataError& error) {
    Problem problem = error.problem();
    std::vector<std::int64_t> steps = list_checkpoints(options.output_dir);
    std::erase_if(steps,
                  [&](std::int64_t step) { return checkpoint_path({}, step).filename() == checkpoint.filename(); });
    if (!steps.empty()) {
      problem.remedy += fmt::format("{}or resume from {}", problem.remedy.empty() ? "" : "; ",
                                    checkpoint_path(options.output_dir, steps.back()).string());
    }
    throw DataError(std::move(problem));
  }
  if (const std::string changes = resume_changes(saved, initial); !changes.empty()) {
    log_warning(fmt::format("this run differs from the one that wrote {}, so it will not continue bit for bit: {}",
                            checkpoint.string(), changes));
  }
  TrainerState state = resumed_state(saved, std::move(initial), evaluates);
  if (saved.best_metric && !state.best_metric) {
    log_warning(
        "earlier evaluations no longer count towards the best model: the metric, its direction or the evaluation data "
        "has changed");
  }
  const std::filesystem::path best = checkpoint_path(options.output_dir, state.best_step);
  if (options.load_best_model_at_end && state.best_metric && !is_done(options, state) &&
      !std::filesystem::exists(best)) {
    log_warning(fmt::format("the best model so far, of update {}, is not in {}: only later evaluations count",
                            state.best_step, best.string()));
    state.best_metric.reset();
    state.best_step = 0;
    state.evaluations_without_gain = 0;
  }
  if (is_done(options, state)) {
    log_info(fmt::format("nothing is left to train: {} is at update {} of {}{}", checkpoint.string(), state.step,
                         state.total_steps, stops_early(options, state) ? ", where the run stopped early" : ""));
  }
  return state;
}

}  // namespace plimsoll
