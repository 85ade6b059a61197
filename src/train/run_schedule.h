// RunSchedule: what is due after an update, by its number. A pure function of the options, so that a resumed run does
// the same after the same updates.
//
//   const RunSchedule schedule(options, total_steps(options, updates_per_epoch), updates_per_epoch, true);
//   const bool is_due = schedule.evaluates_after(step);
#pragma once

#include <cstdint>

#include "train/options.h"

namespace plimsoll {

// Returns the updates of a run over this many updates per epoch.
std::int64_t total_steps(const TrainOptions& options, std::int64_t updates_per_epoch);

class RunSchedule {
 public:
  // `evaluates` says whether the run has data to evaluate on.
  RunSchedule(const TrainOptions& options, std::int64_t total_steps, std::int64_t updates_per_epoch, bool evaluates);

  // `step` is the number of updates done. The last update is always logged, and evaluated unless it comes before
  // eval_delay.
  bool logs_after(std::int64_t step) const;
  bool evaluates_after(std::int64_t step) const;
  // Asked after the evaluation has ended, if one is due.
  bool saves_after(std::int64_t step) const { return every(save_every_, step); }
  // Returns the updates from one checkpoint to the next; 0 if none is due by its number. Then none is written at the
  // end, either.
  std::int64_t save_every() const { return save_every_; }

 private:
  static bool every(std::int64_t steps, std::int64_t step) { return steps > 0 && step % steps == 0; }

  std::int64_t total_steps_;
  std::int64_t log_every_, save_every_, evaluate_every_;  // 0: never
  std::int64_t first_evaluation_;                         // the first update after which there may be one
  bool logs_first_;
};

}  // namespace plimsoll
