#include "train/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {
namespace {

// Returns 1 at 0, and 0 after half a cycle.
double cosine(double cycles) { return 0.5 * (1.0 + std::cos(std::numbers::pi * 2.0 * cycles)); }

void refuse(std::string what, std::string found, std::string allowed) {
  throw UsageError({.what = std::move(what),
                    .where = "--lr-scheduler-kwargs",
                    .found = std::move(found),
                    .allowed = std::move(allowed)});
}

}  // namespace

LearningRate::LearningRate(LearningRateRequest request) : request_(std::move(request)) {
  const Schedule& schedule = request_.schedule;
  adapted_.rate = request_.peak;
  if (schedule.type == SchedulerType::kPolynomial && !(request_.peak > schedule.number("lr_end"))) {
    refuse("the learning rate ends above its peak", fmt::format("lr_end {:g}", schedule.number("lr_end")),
           fmt::format("below --learning-rate, {:g}", request_.peak));
  }
  if (schedule.type == SchedulerType::kWarmupStableDecay && !schedule.given("num_stable_steps")) {
    const double stable =
        static_cast<double>(request_.total_steps - request_.warmup_steps) - schedule.number("num_decay_steps");
    if (stable < 0) {
      refuse(
          "warm-up and decay are longer than the run",
          fmt::format("num_decay_steps {:g}, warm-up of {}", schedule.number("num_decay_steps"), request_.warmup_steps),
          "at most " + counted(request_.total_steps, "update") + " together");
    }
    request_.schedule.numbers["num_stable_steps"] = stable;
  }
}

double LearningRate::at(std::int64_t step) const {
  return request_.schedule.adapts() ? adapted_.rate : request_.peak * factor(step);
}

double LearningRate::factor(std::int64_t step) const {
  const Schedule& schedule = request_.schedule;
  const auto warmup = static_cast<double>(request_.warmup_steps), total = static_cast<double>(request_.total_steps);
  const auto now = static_cast<double>(step);
  const auto least = [&] {
    return schedule.given("min_lr") ? *schedule.given("min_lr") / request_.peak : schedule.number("min_lr_rate");
  };
  switch (schedule.type) {
    case SchedulerType::kConstant:
      return 1;
    case SchedulerType::kWarmupStableDecay:
      return stages(now);
    case SchedulerType::kCosineWarmupWithMinLr: {
      if (now < warmup) {
        const std::optional<double> first = schedule.given("warmup_lr_rate");
        return first ? *first + (1 - *first) * now / std::max(1.0, warmup - 1) : (now + 1) / std::max(1.0, warmup);
      }
      const double progress = (now - warmup + 1) / std::max(1.0, total - warmup);
      return std::max(0.0, cosine(schedule.number("num_cycles") * progress) * (1 - least()) + least());
    }
    default:
      break;
  }
  if (now < warmup) return now / warmup;
  const double progress = (now - warmup) / std::max(1.0, total - warmup);
  switch (schedule.type) {
    case SchedulerType::kConstantWithWarmup:
      return 1;
    case SchedulerType::kCosine:
      return std::max(0.0, cosine(schedule.number("num_cycles") * progress));
    case SchedulerType::kCosineWithRestarts:
      return progress >= 1 ? 0 : cosine(0.5 * std::fmod(schedule.number("num_cycles") * progress, 1.0));
    case SchedulerType::kPolynomial: {
      const double end = schedule.number("lr_end") / request_.peak;
      return now > total ? end : (1 - end) * std::pow(1 - progress, schedule.number("power")) + end;
    }
    case SchedulerType::kInverseSqrt: {
      constexpr double kUsualTimescale = 10'000;
      const double timescale = schedule.given("timescale").value_or(warmup > 0 ? warmup : kUsualTimescale);
      return 1 / std::sqrt((now + timescale - warmup) / timescale);
    }
    case SchedulerType::kCosineWithMinLr:
      return std::max(0.0, cosine(schedule.number("num_cycles") * progress) * (1 - least()) + least());
    default:
      return std::max(0.0, 1 - progress);
  }
}

// Computes warm-up, a constant rate, then decay.
double LearningRate::stages(double step) const {
  const Schedule& schedule = request_.schedule;
  const auto warmup = static_cast<double>(request_.warmup_steps);
  const double stable = warmup + schedule.number("num_stable_steps"), decay = schedule.number("num_decay_steps");
  const double least = schedule.number("min_lr_ratio");
  const auto above_least = [least](double factor) { return std::max(0.0, factor * (1 - least) + least); };
  if (step < warmup) {
    const double progress = step / warmup;
    const std::string& type = schedule.words.at("warmup_type");
    if (type == "cosine") return above_least(0.5 * (1 - std::cos(std::numbers::pi * progress)));
    return above_least(type == "1-sqrt" ? 1 - std::sqrt(1 - progress) : progress);
  }
  if (step < stable) return 1;
  if (step >= stable + decay) return least;
  const double progress = (step - stable) / std::max(1.0, decay);
  const std::string& type = schedule.words.at("decay_type");
  if (type == "cosine") return above_least(cosine(schedule.number("num_cycles") * progress));
  return above_least(type == "1-sqrt" ? 1 - std::sqrt(progress) : 1 - progress);
}

bool LearningRate::better(double metric, bool smaller) const {
  if (!adapted_.best) return !std::isnan(metric);
  const Schedule& schedule = request_.schedule;
  const double threshold = schedule.number("threshold"), best = *adapted_.best;
  const bool relative = schedule.words.at("threshold_mode") == "rel";
  if (smaller) return metric < (relative ? best * (1 - threshold) : best - threshold);
  return metric > (relative ? best * (1 + threshold) : best + threshold);
}

void LearningRate::reduce() {
  const Schedule& schedule = request_.schedule;
  const double least = schedule.number("min_lr"), rate = std::max(adapted_.rate * schedule.number("factor"), least);
  if (adapted_.rate - rate > schedule.number("eps")) adapted_.rate = rate;
  if (schedule.type != SchedulerType::kGreedy || adapted_.rate > least) return;
  // After long enough at the smallest rate, greedy starts again.
  if (++adapted_.at_least < schedule.number("reset_start")) return;
  adapted_ = {.rate = request_.peak};
}

void LearningRate::raise() {
  const Schedule& schedule = request_.schedule;
  const double rate = std::min(adapted_.rate / schedule.number("factor"), schedule.number("max_lr"));
  if (rate - adapted_.rate > schedule.number("eps")) adapted_.rate = rate;
  adapted_.at_least = 0;
}

void LearningRate::observe(double metric, bool smaller_is_better) {
  const Schedule& schedule = request_.schedule;
  if (!schedule.adapts()) return;
  const std::string& mode = schedule.words.at("mode");
  const bool smaller = mode.empty() ? smaller_is_better : mode == "min";
  const bool greedy = schedule.type == SchedulerType::kGreedy;
  const auto patience = static_cast<std::int64_t>(schedule.number("patience"));
  const auto cooldown = static_cast<std::int64_t>(schedule.number("cooldown"));
  if (greedy && schedule.number("smooth") > 0) {
    std::vector<double>& window = adapted_.window;
    window.push_back(metric);
    if (static_cast<double>(window.size()) > schedule.number("window_size")) window.erase(window.begin());
    metric = std::accumulate(window.begin(), window.end(), 0.0) / static_cast<double>(window.size());
  }
  // While waiting, greedy ignores evaluations; reduce_lr_on_plateau only does not count them.
  const bool waits = adapted_.cooldown > 0 || adapted_.warmup > 0;
  if (!greedy || !waits) {
    const bool is_better = better(metric, smaller);
    if (is_better) adapted_.best = metric;
    adapted_.bad = is_better ? 0 : adapted_.bad + 1;
    adapted_.good = is_better ? adapted_.good + 1 : 0;
  }
  if (waits) {
    --(adapted_.cooldown > 0 ? adapted_.cooldown : adapted_.warmup);
    adapted_.bad = adapted_.good = 0;
  }
  if (greedy && adapted_.good > patience) {
    raise();
    adapted_.warmup = static_cast<std::int64_t>(schedule.number("warmup"));
    adapted_.good = 0;
  } else if (adapted_.bad > patience) {
    reduce();
    adapted_.cooldown = cooldown;
    adapted_.bad = 0;
  }
}

}  // namespace plimsoll
