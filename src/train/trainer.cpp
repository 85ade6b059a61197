#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <utility>

#include "base/counted.h"
#include "base/dropout.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "train/disk_need.h"
#include "train/initial_state.h"
#include "train/resume.h"
#include "train/run_directory.h"
#include "train/worst_pages.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string signal_name(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGXCPU:
      return "SIGXCPU";
    default:
      return fmt::format("signal {}", signal);
  }
}

}  // namespace

Trainer::Trainer(const Session& session, const ModelBundle& bundle, const TrainData& data, const TrainOptions& options,
                 const LoaderOptions& loader, int threads, TrainObserver& observer)
    : session_(session),
      bundle_(bundle),
      data_(data),
      options_(options),
      loader_options_(loader),
      observer_(observer),
      sampler_(data.train->examples(), sampler_options(options), data.train->loss_weights()),
      state_(initial_state(session, bundle, *data.train, data.evaluation, sampler_, options, threads)),
      scaler_(options.precision == DType::kF16 ? GradScaler({.scale = options.fp16_initial_scale}) : GradScaler()),
      schedule_(options, state_.total_steps, sampler_.updates_per_epoch(), data.evaluation != nullptr),
      agreement_(session.ranks()),
      memory_(session, bundle),
      saver_(options_, bundle, memory_, observer, session.ranks()),
      learning_rate_({.schedule = options_.schedule,
                      .peak = options_.learning_rate,
                      .warmup_steps = warmup_updates(options_, state_.total_steps),
                      .total_steps = state_.total_steps}),
      updates_(session, bundle, *data.train, sampler_, options_, loader, state_.total_steps),
      recorder_(session, bundle, *data.train, options_, memory_, updates_),
      faults_(options_, session.plan().levers.update, recorder_),
      bad_pages_(options) {
  for (const std::uint32_t page : data.train->options().skipped) sampler_.leave_out(page);
}

TrainSummary Trainer::run(const std::optional<std::filesystem::path>& resume, Interrupt& interrupt) {
  begin(resume);
  observer_.on_begin();  // before the log: the files that it writes show whose the directory is
  log_.emplace(
      options_, resume ? std::optional(state_.step) : std::nullopt,
      GrowthWatch::Options{.budget_bytes = session_.plan().resident_budget_bytes(), .total_steps = state_.total_steps},
      agreement_.is_first());
  const std::int64_t first = state_.step;
  const auto begin_time = Clock::now();
  while (!is_done(options_, state_)) {
    interrupt.set_saved(saver_.holds(state_.step));
    if (const RankAgreement::Requests asked = agreement_.share(interrupt); asked.any()) {
      obey(asked, interrupt);
    } else if (state_.evaluation_due) {
      evaluate_now(interrupt);
    } else {
      update(interrupt);
    }
  }
  finish(interrupt);
  summary_.steps = state_.step;
  summary_.steps_here = state_.step - first;
  summary_.pages_here = throughput_.pages();
  summary_.seconds = seconds_since(begin_time);
  summary_.data_wait = throughput_.data_wait();
  const double device_seconds = updates_.device_seconds();
  if (device_seconds > 0 && throughput_.seconds() > 0) {
    summary_.device_busy = device_seconds / throughput_.seconds();
  }
  summary_.stopped_early = stops_early(options_, state_);
  summary_.best_metric = state_.best_metric;
  summary_.best_step = state_.best_step;
  summary_.skipped_updates = state_.scaler.skipped;
  summary_.skipped_pages = state_.skipped_pages;
  return summary_;
}

void Trainer::begin(const std::optional<std::filesystem::path>& resume) {
  if (agreement_.is_first()) recover_run_directory(options_.output_dir);
  agreement_.wait_for_all();
  if (resume) {
    state_ = plimsoll::resume(*resume, std::move(state_), options_, data_.evaluation != nullptr, memory_);
    if (scaler_.on()) scaler_ = GradScaler(state_.scaler);
    for (const std::uint32_t page : indices_of(state_.skipped_pages, false)) sampler_.leave_out(page);
    if (state_.adapted_rate) learning_rate_.restore(*state_.adapted_rate);
    saver_.resume_at(state_.step);
  } else {
    memory_.fill_fresh(options_.seed);
    if (const auto aside = agreement_.is_first() ? set_run_aside(options_.output_dir) : std::nullopt) {
      log_warning(set_aside_text(options_.output_dir, *aside));
    }
    state_.evaluation_due = options_.eval_on_start && data_.evaluation != nullptr;
  }
  memory_.expect_updates(state_.total_steps - state_.step);
  if (options_.teacher != nullptr && options_.teacher_file == nullptr) memory_.fill_teacher(*options_.teacher);
  if (agreement_.is_first()) {
    check_disk(options_.output_dir,
               {.every = schedule_.save_every(),
                .limit = options_.save_total_limit,
                .step = state_.step,
                .total_steps = state_.total_steps,
                .existing = static_cast<std::int64_t>(list_checkpoints(options_.output_dir).size())},
               memory_.written_bytes(options_.save_only_model));
  }
}

StepScalars Trainer::scalars() const {
  return {.step = state_.step + 1,
          .optimizer_step = real_updates() + 1,
          .seed = options_.seed,
          .dropout_key = dropout_key(options_.seed, static_cast<std::uint64_t>(state_.step)),
          .learning_rate = learning_rate_.at(real_updates()),
          .max_grad_norm = options_.max_grad_norm,
          .scale = scaler_.scale()};
}

void Trainer::update(const Interrupt& interrupt) {
  updates_.open(state_.step);
  const auto begin_time = Clock::now();
  const StepScalars scalars_of_update = scalars();
  const UpdateResult result = updates_.run(scalars_of_update, interrupt);
  bool changed = false;
  switch (result.end) {
    case UpdateResult::End::kDropped:
      return;
    case UpdateResult::End::kBadPage:
      return leave_out_or_end(*result.bad_page, false);
    case UpdateResult::End::kWhole:
      bad_pages_.forget_row();
      changed = rescale(result);
      if (changed) memory_.note_update(scalars_of_update.learning_rate);
      log_->write_order(state_.step, result.samples);
      break;
    case UpdateResult::End::kFaulty:
      bad_pages_.forget_row();
      skip_or_end(result);
      break;
    case UpdateResult::End::kWithoutPages:
      ++state_.scaler.skipped;
      if (scaler_.on()) scaler_ = GradScaler(state_.scaler);
      break;
  }
  ++state_.step;
  throughput_.add({.pages = result.pages, .seconds = seconds_since(begin_time), .wait_seconds = result.wait_seconds});
  after_update(result, changed);
}

bool Trainer::rescale(const UpdateResult& result) {
  const bool changed = scaler_.update(std::isfinite(result.gradient_norm));
  faults_.forget_row();
  if (!scaler_.on()) return changed;
  state_.scaler = scaler_.state();
  if (!scaler_.collapsed()) return changed;
  ++state_.step;  // nothing of it has reached the parameters, but its pages have been seen
  saver_.save(state_);
  std::string pages;
  for (const SampleReference& sample : result.last_samples) {
    pages += fmt::format("{}{}", pages.empty() ? "" : ", ", data_.train->source().read(sample.page).id);
  }
  throw ScaleCollapsedError(
      {.what = "half precision overflows whatever the loss is scaled by",
       .where = fmt::format("update {}, pages {}", state_.step, pages),
       .found = fmt::format("{} skipped, the last ones in a row; the loss scale has fallen to {:.3g}",
                            counted(state_.scaler.skipped, "update"), state_.scaler.scale),
       .allowed = fmt::format("a scale of {:.3g} or more", GradScaler::kSmallestScale),
       .remedy = fmt::format("activations do not fit half precision: continue with --bf16 --resume-from-checkpoint {}, "
                             "or pass --fp16-fallback bf16",
                             checkpoint_path(options_.output_dir, state_.step).string())});
}

void Trainer::skip_or_end(const UpdateResult& result) {
  const UpdateFaults::Verdict verdict = faults_.judge(result, scalars());
  if (verdict.ends) {
    if (verdict.intact && state_.step > 0) saver_.save(state_);
    const std::vector<std::int64_t> good = list_checkpoints(options_.output_dir);
    throw_fault(verdict.facts,
                good.empty() ? std::filesystem::path() : checkpoint_path(options_.output_dir, good.back()));
  }
  if (scaler_.on()) {
    scaler_.update(false);
    state_.scaler = scaler_.state();
  } else {
    ++state_.scaler.skipped;
  }
}

void Trainer::leave_out_or_end(const BadPageError& error, bool evaluation) {
  const SkippedPage page{.evaluation = evaluation, .page = error.page(), .problem = error.problem()};
  const PageSource& source = (evaluation ? data_.evaluation : data_.train)->source();
  const BadPageVerdict verdict = bad_pages_.judge(page, source.size(), state_.skipped_pages);
  if (verdict.ends) {
    saver_.save(state_);
    throw DataError(bad_page_problem(error.problem(), verdict, state_.step));
  }
  saver_.outdate();
  if (!evaluation) sampler_.leave_out(page.page);
}

StepReport Trainer::report(double loss) const {
  const double rate = throughput_.pages_per_second();
  const auto per_epoch = static_cast<double>(sampler_.updates_per_epoch());
  const double pages_left = static_cast<double>(state_.total_steps - state_.step) *
                            static_cast<double>(sampler_.samples_per_epoch()) / per_epoch;
  return {
      .step = state_.step,
      .total_steps = state_.total_steps,
      .logs = schedule_.logs_after(state_.step),
      .epoch = sampler_.epochs_after(state_.step),
      .loss = loss,
      .mean_loss = state_.interval_steps > 0 ? state_.interval_loss / static_cast<double>(state_.interval_steps) : loss,
      .learning_rate = learning_rate_.at(std::max<std::int64_t>(0, real_updates() - 1)),
      .gradient_norm = gradient_norm_,
      .pages_per_second = rate,
      .data_wait = throughput_.data_wait(),
      .seconds_left = rate > 0 ? pages_left / rate : 0,
      .resident_bytes = resident_bytes(),
      .budget_bytes = session_.plan().resident_budget_bytes(),
      .on_device = session_.plan().on_device,
      .loss_scale = scaler_.scale(),
      .skipped_updates = state_.scaler.skipped};
}

void Trainer::after_update(const UpdateResult& result, bool changed) {
  gradient_norm_ = result.gradient_norm;
  if (changed) {
    summary_.last_loss = result.loss;
    state_.interval_loss += result.loss;
    ++state_.interval_steps;
  }
  const StepReport now = report(result.loss);
  observer_.on_step(now);
  log_->after_update(now, throughput_.seconds());
  if (now.logs) {
    state_.interval_loss = 0;
    state_.interval_steps = 0;
  }
  state_.evaluation_due = schedule_.evaluates_after(state_.step);
  if (!state_.evaluation_due && schedule_.saves_after(state_.step)) saver_.save_due(state_);
}

PredictControl Trainer::evaluation_control(const Interrupt& interrupt) {
  std::vector<std::uint32_t> skipped = indices_of(state_.skipped_pages, true);
  const std::vector<std::uint32_t>& unread = data_.evaluation->options().skipped;
  skipped.insert(skipped.end(), unread.begin(), unread.end());
  return {.skipped = std::move(skipped),
          .on_bad_page = [this](const BadPageError& error) { leave_out_or_end(error, true); },
          .interrupt = &interrupt};
}

void Trainer::evaluate_now(const Interrupt& interrupt) {
  updates_.close();  // the plan holds one loader at a time
  Evaluation evaluation;
  try {
    evaluation =
        evaluate(session_, bundle_, *data_.evaluation, loader_options_, evaluation_control(interrupt), kWorstPages);
  } catch (const DivergedError& error) {
    saver_.save(state_);  // the previous update was fine, as far as its loss and gradients show
    Problem problem = error.problem();
    problem.what = fmt::format("evaluation after update {}: {}", state_.step, problem.what);
    problem.remedy +=
        fmt::format("; the run is saved in {}", checkpoint_path(options_.output_dir, state_.step).string());
    throw DivergedError(std::move(problem));
  }
  if (evaluation.interrupted) return;
  state_.evaluation_due = false;
  saver_.outdate();
  bad_pages_.forget_row();
  const StepReport now = report(summary_.last_loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  log_->write_evaluation(now, evaluation);
  observer_.on_evaluation(now, evaluation);
  // An evaluation before the first update only shows where the run begins; it decides nothing.
  if (state_.step > 0) {
    adapt_learning_rate(evaluation);
    note_best(evaluation);
    if (schedule_.saves_after(state_.step)) saver_.save_due(state_);
  }
  summary_.evaluation = std::move(evaluation);
}

void Trainer::adapt_learning_rate(const Evaluation& evaluation) {
  if (!options_.schedule.adapts()) return;
  const Scores::Metric metric = evaluation.metric(metric_name(bundle_, options_.metric_for_best_model));
  if (std::isnan(metric.value)) return;
  learning_rate_.observe(metric.value, metric.smaller_is_better);
  state_.adapted_rate = learning_rate_.adapted();
}

void Trainer::note_best(const Evaluation& evaluation) {
  const Scores::Metric metric = evaluation.metric(metric_name(bundle_, options_.metric_for_best_model));
  if (std::isnan(metric.value)) {
    if (!std::exchange(told_no_metric_, true)) {
      log_warning(
          fmt::format("the evaluation data has nothing that {} measures, so no model counts as the best, and "
                      "neither early stopping nor the learning rate goes by it; choose another "
                      "--metric-for-best-model",
                      metric.name));
    }
    return;
  }
  const bool smaller = options_.greater_is_better ? !*options_.greater_is_better : metric.smaller_is_better;
  const double gain = !state_.best_metric ? std::numeric_limits<double>::infinity()
                                          : (smaller ? -1 : 1) * (metric.value - *state_.best_metric);
  // Counts like EarlyStoppingCallback: compared with the best so far, which a smaller gain may have raised since.
  state_.evaluations_without_gain = gain > options_.early_stopping_threshold ? 0 : state_.evaluations_without_gain + 1;
  if (gain > 0) {
    state_.best_metric = metric.value;
    state_.best_step = state_.step;
    if (options_.load_best_model_at_end || options_.save_strategy == IntervalStrategy::kBest) saver_.save_due(state_);
  }
  if (state_.step < state_.total_steps && stops_early(options_, state_)) {
    log_info(fmt::format("stopping early after update {} of {}: {} has not improved on {:.4f} of update {} in {}",
                         state_.step, state_.total_steps, metric.name, *state_.best_metric, state_.best_step,
                         counted(state_.evaluations_without_gain, "evaluation")));
  }
}

void Trainer::obey(const RankAgreement::Requests& asked, Interrupt& interrupt) {
  saver_.save(state_);
  if (asked.end_signal == 0) return interrupt.clear_save();
  throw InterruptedError({.what = fmt::format("interrupted by {} after update {} of {}", signal_name(asked.end_signal),
                                              state_.step, state_.total_steps),
                          .where = checkpoint_path(options_.output_dir, state_.step).string(),
                          .remedy = "continue with --resume-from-checkpoint latest"},
                         asked.end_signal);
}

void Trainer::finish(Interrupt& interrupt) {
  updates_.close();
  if (schedule_.save_every() > 0) saver_.save_due(state_);
  const std::filesystem::path best = checkpoint_path(options_.output_dir, state_.best_step);
  bool takes_best = options_.load_best_model_at_end && state_.best_metric && state_.best_step != state_.step;
  if (takes_best && !std::filesystem::exists(best)) {
    takes_best = false;
    log_warning(fmt::format("{}, which had the best model, is gone: the last one is saved", best.string()));
  }
  if (takes_best) {
    memory_.fill_parameters_from(best);
    log_info(fmt::format("the model of update {} was the best, and is the one that is saved", state_.best_step));
  }
  saver_.save_model();
  if (takes_best && data_.evaluation != nullptr) evaluate_best(interrupt);
}

void Trainer::evaluate_best(Interrupt& interrupt) {
  interrupt.set_saved(true);
  // Everything is saved already, so a bad page only needs to be reported.
  PredictControl control = evaluation_control(interrupt);
  control.on_bad_page = [this](const BadPageError& error) {
    state_.skipped_pages.push_back({.evaluation = true, .page = error.page(), .problem = error.problem()});
    log_warning(
        fmt::format("a page can no longer be read and is not evaluated: {}", describe(state_.skipped_pages.back())));
  };
  summary_.evaluation = evaluate(session_, bundle_, *data_.evaluation, loader_options_, control, kWorstPages);
  if (!summary_.evaluation->interrupted) return;
  const int signal = agreement_.share(interrupt).end_signal;
  throw InterruptedError(
      {.what = fmt::format("interrupted by {} after the best model was saved, before its final evaluation",
                           signal_name(signal)),
       .where = options_.output_dir.string(),
       .remedy = fmt::format("nothing is lost; plimsoll eval --model {} evaluates it", options_.output_dir.string())},
      signal);
}

}  // namespace plimsoll
