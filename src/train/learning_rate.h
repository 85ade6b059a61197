// LearningRate: the learning rate of each update. Most schedules are functions of the update's number;
// reduce_lr_on_plateau and greedy change with the metric of evaluations, and their state is saved in checkpoints.
//
//   LearningRate rate({.schedule = schedule, .peak = 5e-5, .warmup_steps = 100, .total_steps = 1000});
//   rate.at(17);
//   rate.observe(0.91, false);  // after an evaluation
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/schedule.h"

namespace plimsoll {

// The state of a schedule that adapts to evaluations. Counts are in evaluations.
struct AdaptedRate {
  double rate = 0;
  std::optional<double> best{};
  std::int64_t bad = 0, good = 0;         // in a row
  std::int64_t cooldown = 0, warmup = 0;  // evaluations still to wait for
  std::int64_t at_least = 0;              // spent at min_lr
  std::vector<double> window{};           // the last metrics (greedy with smooth)

  friend bool operator==(const AdaptedRate&, const AdaptedRate&) = default;
};

struct LearningRateRequest {
  Schedule schedule{};
  double peak = 5e-5;
  std::int64_t warmup_steps = 0, total_steps = 1;
};

class LearningRate {
 public:
  // Throws UsageError for a schedule that cannot have that peak, or cannot reach it in this many updates.
  explicit LearningRate(LearningRateRequest request);

  // Returns the rate of update `step` (0 for the first), as in get_scheduler of `transformers`; "constant" has no
  // warm-up, nor have schedules that adapt to evaluations.
  double at(std::int64_t step) const;

  // Tells a schedule that adapts to evaluations what the last one found; does nothing for others. The schedule's
  // `mode`, if given, says whether smaller is better, otherwise the metric does.
  void observe(double metric, bool smaller_is_better);
  const AdaptedRate& adapted() const { return adapted_; }
  void restore(const AdaptedRate& adapted) { adapted_ = adapted; }

 private:
  double factor(std::int64_t step) const;
  double stages(double step) const;
  bool better(double metric, bool smaller) const;
  void reduce();
  void raise();

  LearningRateRequest request_;
  AdaptedRate adapted_;
};

}  // namespace plimsoll
