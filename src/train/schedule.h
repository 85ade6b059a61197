// The learning rate schedules of `transformers`, with its names and arguments.
//
//   const Schedule schedule = parse_schedule("cosine_with_restarts", R"({"num_cycles": 3})");
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

enum class SchedulerType : std::uint8_t {
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,
  kConstantWithWarmup,
  kInverseSqrt,
  kReduceOnPlateau,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kWarmupStableDecay,
  kGreedy
};

// A schedule with its arguments (lr_scheduler_kwargs of `transformers`), which have their defaults unless given.
struct Schedule {
  SchedulerType type = SchedulerType::kLinear;
  std::map<std::string, double> numbers{};  // flags as 0 and 1; without those that have neither a value nor a default
  std::map<std::string, std::string> words{};

  double number(const std::string& name) const { return numbers.at(name); }
  std::optional<double> given(const std::string& name) const;
  // Returns true if it adapts to the metric of evaluations: reduce_lr_on_plateau and greedy.
  bool adapts() const { return type == SchedulerType::kReduceOnPlateau || type == SchedulerType::kGreedy; }
};

std::vector<std::string> schedule_names();
// `arguments` is a JSON object, or empty. Throws UsageError for an unknown name, and for arguments that the schedule
// does not know, needs, or cannot accept.
Schedule parse_schedule(const std::string& name, const std::string& arguments = {});
// Returns "cosine_with_restarts, num_cycles 3": the name, and the arguments that differ from their defaults.
std::string schedule_text(const Schedule& schedule);

}  // namespace plimsoll
