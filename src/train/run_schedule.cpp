#include "train/run_schedule.h"

#include <cmath>

namespace plimsoll {

std::int64_t total_steps(const TrainOptions& options, std::int64_t updates_per_epoch) {
  if (options.max_steps > 0) return options.max_steps;
  return static_cast<std::int64_t>(std::ceil(options.num_train_epochs * static_cast<double>(updates_per_epoch)));
}

}  // namespace plimsoll
