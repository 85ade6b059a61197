#include "train/run_schedule.h"

#include <cmath>

namespace plimsoll {
namespace {

std::int64_t rounded_up(double steps) { return static_cast<std::int64_t>(std::ceil(steps)); }

// Returns the updates between two events; 0: never.
std::int64_t interval(IntervalStrategy strategy, double steps, std::int64_t total, std::int64_t per_epoch) {
  switch (strategy) {
    case IntervalStrategy::kSteps:
      return rounded_up(steps < 1 ? steps * static_cast<double>(total) : steps);
    case IntervalStrategy::kEpoch:
      return per_epoch;
    default:
      return 0;
  }
}

}  // namespace

std::int64_t total_steps(const TrainOptions& options, std::int64_t updates_per_epoch) {
  if (options.max_steps > 0) return options.max_steps;
  return rounded_up(options.num_train_epochs * static_cast<double>(updates_per_epoch));
}

RunSchedule::RunSchedule(const TrainOptions& options, std::int64_t total_steps, std::int64_t updates_per_epoch,
                         bool evaluates)
    : total_steps_(total_steps),
      log_every_(interval(options.logging_strategy, options.logging_steps, total_steps, updates_per_epoch)),
      save_every_(interval(options.save_strategy, options.save_steps, total_steps, updates_per_epoch)),
      evaluate_every_(0),
      first_evaluation_(0),
      logs_first_(options.logging_first_step) {
  if (!evaluates) return;
  const IntervalStrategy strategy = evaluation_strategy(options);
  const double steps = options.eval_steps > 0 ? options.eval_steps : options.logging_steps;
  evaluate_every_ = interval(strategy, steps, total_steps, updates_per_epoch);
  const bool by_epoch = strategy == IntervalStrategy::kEpoch;
  first_evaluation_ = rounded_up(options.eval_delay * (by_epoch ? static_cast<double>(updates_per_epoch) : 1.0));
}

bool RunSchedule::logs_after(std::int64_t step) const {
  return every(log_every_, step) || step == total_steps_ || (logs_first_ && step == 1);
}

bool RunSchedule::evaluates_after(std::int64_t step) const {
  if (evaluate_every_ == 0 || step < first_evaluation_) return false;
  return every(evaluate_every_, step) || step == total_steps_;
}

}  // namespace plimsoll
