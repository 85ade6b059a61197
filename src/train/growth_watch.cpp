#include "train/growth_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace plimsoll {
namespace {

constexpr std::size_t kQuarters = 4, kFewestSamples = 16;
// The smallest rise between neighbouring quarters must be at least this share of the mean rise.
constexpr double kSteady = 0.5;

}  // namespace

std::string describe(const Growth& growth) {
  const std::string rate = format_bytes(static_cast<std::size_t>(growth.bytes_per_step)) + " per update";
  if (growth.suspect == Growth::Suspect::kOtherProcesses) {
    return fmt::format(
        "the free memory of the machine, or of this run's cgroup, falls by {} and is now {}, but this run does not "
        "grow: other processes will have used all of it by update {}; check what else is running",
        rate, format_bytes(growth.bytes), growth.crosses_at);
  }
  return fmt::format(
      "resident memory grows by {} and is now {}: it will exceed the budget of {} in update {}; {}; save checkpoints "
      "(--save-steps) so that the run is not lost",
      rate, format_bytes(growth.bytes), format_bytes(growth.limit), growth.crosses_at,
      growth.suspect == Growth::Suspect::kHeap ? "it is heap (anonymous memory): a leak, please report it"
                                               : "it is file-backed memory: cached files or mapped libraries");
}

double GrowthWatch::slope(std::size_t ProcessMemory::*series, double sign) const {
  std::array<double, kQuarters> medians{};
  std::array<double, kSamples / kQuarters + 1> values{};
  std::array<double, kQuarters> centres{};
  for (std::size_t q = 0; q < kQuarters; ++q) {
    const std::size_t begin = q * count_ / kQuarters, end = (q + 1) * count_ / kQuarters, n = end - begin;
    for (std::size_t i = 0; i < n; ++i) values[i] = sign * static_cast<double>(samples_[begin + i].memory.*series);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(n / 2);
    std::nth_element(values.begin(), middle, values.begin() + static_cast<std::ptrdiff_t>(n));
    medians[q] = *middle;
    centres[q] = static_cast<double>(samples_[begin + n / 2].step);
  }
  const double mean = (medians[3] - medians[0]) / 3;
  if (mean <= 0 || centres[3] <= centres[0]) return 0;
  for (std::size_t q = 0; q + 1 < kQuarters; ++q) {
    if (medians[q + 1] - medians[q] < kSteady * mean) return 0;
  }
  return 3 * mean / (centres[3] - centres[0]);
}

std::optional<Growth> GrowthWatch::add(std::int64_t step, double seconds, const ProcessMemory& memory) {
  if (reported_ || options_.total_steps <= 0) return std::nullopt;
  if (first_step_ < 0) first_step_ = step;
  if (step - first_step_ < options_.warm_up_steps || seen_++ % every_ != 0) return std::nullopt;
  if (count_ == kSamples) {  // keep every second one
    for (std::size_t i = 0; i < kSamples / 2; ++i) samples_[i] = samples_[2 * i];
    count_ = kSamples / 2;
    every_ *= 2;
  }
  samples_[count_++] = {.step = step, .seconds = seconds, .memory = memory};
  if (count_ < kFewestSamples || step - samples_[0].step < options_.least_steps ||
      seconds - samples_[0].seconds < options_.least_seconds) {
    return std::nullopt;
  }
  const double left = static_cast<double>(options_.total_steps - step);
  const auto report = [&](Growth::Suspect suspect, double rate, std::size_t now, std::size_t limit, double room) {
    reported_ = true;
    return Growth{.suspect = suspect,
                  .bytes_per_step = rate,
                  .bytes = now,
                  .limit = limit,
                  .crosses_at = step + static_cast<std::int64_t>(std::max(0.0, room) / rate)};
  };
  const double own = slope(&ProcessMemory::resident, 1);
  const double room = static_cast<double>(options_.budget_bytes) - static_cast<double>(memory.resident);
  if (own > 0 && options_.budget_bytes > 0 && own * left > room) {
    const bool heap = slope(&ProcessMemory::anonymous, 1) >= own / 2;
    return report(heap ? Growth::Suspect::kHeap : Growth::Suspect::kFilePages, own, memory.resident,
                  options_.budget_bytes, room);
  }
  const double lost = slope(&ProcessMemory::machine_free, -1);
  const auto free = static_cast<double>(memory.machine_free);
  if (lost > 0 && own < lost / 2 && lost * left > free) {
    return report(Growth::Suspect::kOtherProcesses, lost, memory.machine_free, 0, free);
  }
  return std::nullopt;
}

}  // namespace plimsoll
