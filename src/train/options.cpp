#include "train/options.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace plimsoll {

IntervalStrategy parse_strategy(std::string_view name, const std::string& option) {
  constexpr std::array<std::pair<std::string_view, IntervalStrategy>, 4> kNames = {{{"no", IntervalStrategy::kNo},
                                                                                    {"steps", IntervalStrategy::kSteps},
                                                                                    {"epoch", IntervalStrategy::kEpoch},
                                                                                    {"best", IntervalStrategy::kBest}}};
  for (const auto& [known, strategy] : kNames) {
    if (name == known) return strategy;
  }
  throw UsageError({.what = "no such strategy",
                    .where = option,
                    .found = std::string(name),
                    .allowed = "no, steps, epoch, or best for checkpoints"});
}

SamplerOptions sampler_options(const TrainOptions& options) {
  return {.seed = options.data_seed.value_or(options.seed),
          .train_batch_size = options.train_batch_size,
          .order = options.sampling,
          .multiple = options.drop_last_of,
          .pad_to = options.pad_to,
          .rank = options.rank,
          .ranks = options.ranks};
}

IntervalStrategy evaluation_strategy(const TrainOptions& options) {
  if (options.eval_strategy) return *options.eval_strategy;
  return options.eval_steps > 0 ? IntervalStrategy::kSteps : IntervalStrategy::kEpoch;
}

std::int64_t warmup_updates(const TrainOptions& options, std::int64_t total) {
  if (options.warmup_steps > 0) return options.warmup_steps;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(total) * options.warmup_ratio));
}

}  // namespace plimsoll
