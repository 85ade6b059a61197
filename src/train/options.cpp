#include "train/options.h"

#include <cmath>

namespace plimsoll {

std::int64_t warmup_updates(const TrainOptions& options, std::int64_t total) {
  if (options.warmup_steps > 0) return options.warmup_steps;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(total) * options.warmup_ratio));
}

}  // namespace plimsoll
