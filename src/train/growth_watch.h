// GrowthWatch: reports, once and early, if memory grows so fast that the run will not reach its end, and what grows. By
// the plan nothing grows; this verifies it.
//
//   GrowthWatch watch({.budget_bytes = budget, .total_steps = 9000});
//   if (const auto growth = watch.add(step, seconds, process_memory(groups))) log_warning(describe(*growth));
//
// Samples are cut into four quarters; memory grows if the quarters' medians rise by comparable amounts. A jump, an
// outlier or growth that levels off does not count. Allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/process.h"

namespace plimsoll {

struct Growth {
  enum class Suspect : std::uint8_t { kHeap, kFilePages, kOtherProcesses };
  Suspect suspect = Suspect::kHeap;
  double bytes_per_step = 0;    // of resident memory, or of the machine's free memory, lost
  std::size_t bytes = 0;        // resident now, or free now
  std::size_t limit = 0;        // the budget, or 0 for free memory
  std::int64_t crosses_at = 0;  // the update in which it exceeds the limit
};
std::string describe(const Growth& growth);

class GrowthWatch {
 public:
  struct Options {
    std::size_t budget_bytes = 0;
    std::int64_t total_steps = 0;
    std::int64_t warm_up_steps = 50;  // of this process, which are ignored
    std::int64_t least_steps = 200;   // between the oldest and the newest sample
    double least_seconds = 120;
  };
  GrowthWatch() = default;  // never reports
  explicit GrowthWatch(const Options& options) : options_(options) {}

  // `step` is the run's, ascending; `seconds` count from the run's beginning. Returns growth the first time that it is
  // sure.
  std::optional<Growth> add(std::int64_t step, double seconds, const ProcessMemory& memory);

 private:
  struct Sample {
    std::int64_t step = 0;
    double seconds = 0;
    ProcessMemory memory{};
  };
  static constexpr std::size_t kSamples = 64;

  // Returns the bytes per step by which the series steadily rises (sign 1) or falls (-1); 0 if it does not.
  double slope(std::size_t ProcessMemory::*series, double sign) const;

  Options options_{};
  std::array<Sample, kSamples> samples_{};
  std::size_t count_ = 0;
  std::int64_t first_step_ = -1, seen_ = 0;
  std::int64_t every_ = 1;  // keeps one of this many samples; doubles when there is no room
  bool reported_ = false;
};

}  // namespace plimsoll
