// RunSchedule: what follows an update, by its number. A pure function of the options, so that a resumed run does the
// same after the same updates.
//
//   const RunSchedule schedule(options, total_steps(options, updates_per_epoch), updates_per_epoch, true);
//   const bool is_due = schedule.evaluates_after(step);
#pragma once

#include <cstdint>

#include "train/options.h"

namespace plimsoll {

// Updates of a run over this many updates an epoch.
std::int64_t total_steps(const TrainOptions& options, std::int64_t updates_per_epoch);

class RunSchedule {
 public:
  // `evaluates`: the run has data to evaluate on.
  RunSchedule(const TrainOptions& options, std::int64_t total_steps, std::int64_t updates_per_epoch, bool evaluates)
      : logging_steps_(options.logging_steps),
        save_steps_(options.save_steps),
        eval_steps_(options.eval_steps > 0 ? options.eval_steps : updates_per_epoch),
        total_steps_(total_steps),
        evaluates_(evaluates) {}

  // `step` updates are done. The last update is always logged and evaluated.
  bool logs_after(std::int64_t step) const { return every(logging_steps_, step) || step == total_steps_; }
  bool evaluates_after(std::int64_t step) const {
    return evaluates_ && (every(eval_steps_, step) || step == total_steps_);
  }
  // Once its evaluation, if one is due, has ended.
  bool saves_after(std::int64_t step) const { return every(save_steps_, step); }

 private:
  static bool every(std::int64_t steps, std::int64_t step) { return steps > 0 && step % steps == 0; }

  std::int64_t logging_steps_, save_steps_, eval_steps_, total_steps_;
  bool evaluates_;
};

}  // namespace plimsoll
