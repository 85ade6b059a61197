// LearningRate: the learning rate of each update. Most schedules are functions of the update's number;
// reduce_lr_on_plateau and greedy change with the metric of evaluations, and what they have come to is a state that
// checkpoints hold.
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

// What a schedule that goes by evaluations has come to. Counts are of evaluations.
struct AdaptedRate {
  double rate = 0;
  std::optional<double> best{};
  std::int64_t bad = 0, good = 0;         // in a row
  std::int64_t cooldown = 0, warmup = 0;  // still to be waited for
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
  // Throws UsageError for a schedule that cannot have that peak, or not in so many updates.
  explicit LearningRate(LearningRateRequest request);

  // The rate of update `step`, 0 for the first, as get_scheduler of `transformers` has it; its "constant" has no
  // warm-up, nor have those that go by evaluations.
  double at(std::int64_t step) const;

  // Tells a schedule that goes by evaluations what the last one found; nothing for others. Its `mode` says which metric
  // is better where it is given, the metric itself where it is not.
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
