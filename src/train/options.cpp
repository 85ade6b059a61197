#include "train/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace plimsoll {

SchedulerType parse_scheduler_type(const std::string& name) {
  if (name == "linear") return SchedulerType::kLinear;
  if (name == "cosine") return SchedulerType::kCosine;
  if (name == "constant") return SchedulerType::kConstant;
  if (name == "constant_with_warmup") return SchedulerType::kConstantWithWarmup;
  throw UsageError({.what = "unknown learning rate schedule",
                    .where = "--lr-scheduler-type",
                    .found = name,
                    .allowed = "linear, cosine, constant or constant_with_warmup"});
}

std::string scheduler_type_name(SchedulerType type) {
  switch (type) {
    case SchedulerType::kLinear:
      return "linear";
    case SchedulerType::kCosine:
      return "cosine";
    case SchedulerType::kConstantWithWarmup:
      return "constant_with_warmup";
    default:
      return "constant";
  }
}

double scheduled_learning_rate(const TrainOptions& options, std::int64_t step, std::int64_t total) {
  const auto warmup = options.warmup_steps > 0
                          ? options.warmup_steps
                          : static_cast<std::int64_t>(std::ceil(static_cast<double>(total) * options.warmup_ratio));
  // `constant` of `transformers` knows no warm-up.
  if (options.lr_scheduler_type == SchedulerType::kConstant) return options.learning_rate;
  if (step < warmup) return options.learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  if (options.lr_scheduler_type == SchedulerType::kConstantWithWarmup) return options.learning_rate;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, total - warmup));
  if (options.lr_scheduler_type == SchedulerType::kLinear) return options.learning_rate * std::max(0.0, 1.0 - progress);
  return options.learning_rate * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
}

}  // namespace plimsoll
