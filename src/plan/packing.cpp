#include "plan/packing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/packing_search.h"
#include "plan/placing.h"

namespace plimsoll {
namespace {

// The search recurses once for each buffer.
constexpr std::size_t kMostSearched = 6000;
// The number of steps that a plan is worth: a direct run to a packing takes 20 to 100 times the buffers squared.
std::int64_t default_steps(std::int64_t buffers) {
  constexpr std::int64_t kFewest = 30'000'000, kMost = 450'000'000, kPerSquaredBuffer = 250;
  return std::clamp(kPerSquaredBuffer * buffers * buffers, kFewest, kMost);
}

Packing to_packing(std::span<const Interval> intervals, std::vector<std::size_t> offsets) {
  Packing packing{.offsets = std::move(offsets)};
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    packing.bytes = std::max(packing.bytes, packing.offsets[i] + intervals[i].bytes);
  }
  return packing;
}

}  // namespace

std::size_t lower_bound_bytes(std::span<const Interval> intervals) {
  struct Event {
    std::int64_t time;
    bool starts;
    std::size_t bytes;
  };
  std::vector<Event> events;
  events.reserve(2 * intervals.size());
  for (const Interval& interval : intervals) {
    if (interval.begin >= interval.end) continue;
    events.push_back({interval.begin, true, interval.bytes});
    events.push_back({interval.end, false, interval.bytes});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.starts < b.starts;  // ends come first
  });
  std::size_t alive = 0, most = 0;
  for (const Event& event : events) {
    alive = event.starts ? alive + event.bytes : alive - event.bytes;
    most = std::max(most, alive);
  }
  return most;
}

Packing pack(std::span<const Interval> intervals, std::size_t alignment_bytes, const PackOptions& options) {
  for (const Interval& interval : intervals) {
    check(interval.begin < interval.end, "every buffer has a lifetime");
    check(interval.bytes % alignment_bytes == 0, "buffers to pack have aligned sizes");
  }
  const std::size_t bound = lower_bound_bytes(intervals);
  const std::size_t goal = std::max(bound, options.capacity_bytes);
  Packing best = place_buffers(intervals, goal);
  best.is_smallest = best.bytes == bound;
  if (best.bytes <= goal || intervals.size() > kMostSearched) return best;
  const auto buffers = static_cast<std::int64_t>(intervals.size());
  std::int64_t left = options.max_steps > 0 ? options.max_steps : default_steps(buffers);
  std::size_t impossible = 0;  // the largest capacity known to be too small
  const auto search = [&](std::size_t capacity, std::int64_t most_steps) {
    if (capacity >= best.bytes || capacity <= impossible || most_steps <= 0) return false;
    const SearchResult result = search_packing(intervals, capacity, most_steps);
    left -= result.steps;
    if (result.verdict == SearchVerdict::kFound) best = to_packing(intervals, result.offsets);
    if (result.verdict == SearchVerdict::kImpossible) impossible = capacity;
    return result.verdict == SearchVerdict::kFound;
  };
  if (options.capacity_bytes > 0) {
    search(goal, left);
  } else {
    // A little room makes the search far easier; the bound itself is tried afterwards, for about the same time.
    const std::int64_t before = left;
    const bool is_near = search(bound + bound / 400, left / 2) || search(bound + bound / 100, left / 2) ||
                         search(bound + bound / 20, left);
    if (is_near) search(bound, std::min(left, 2 * (before - left)));
    while (search(best.bytes - alignment_bytes, left)) {
    }
  }
  // If all buffers are pushed down, each lies on others or on the ground, so packings differ by whole alignments.
  best.is_smallest = best.bytes == bound || impossible + alignment_bytes >= best.bytes;
  return best;
}

void validate(std::span<const Interval> intervals, const Packing& packing, std::size_t alignment_bytes) {
  check(packing.offsets.size() == intervals.size(), "a packing has an offset for each buffer");
  for (std::size_t a = 0; a < intervals.size(); ++a) {
    if (packing.offsets[a] % alignment_bytes != 0)
      check(false, [&] { return fmt::format("buffer {} is not aligned", a); });
    if (packing.offsets[a] + intervals[a].bytes > packing.bytes) {
      check(false, [&] { return fmt::format("buffer {} leaves the arena", a); });
    }
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = intervals[a].begin < intervals[b].end && intervals[b].begin < intervals[a].end;
      const bool apart = packing.offsets[a] + intervals[a].bytes <= packing.offsets[b] ||
                         packing.offsets[b] + intervals[b].bytes <= packing.offsets[a];
      if (together && !apart) check(false, [&] { return fmt::format("buffers {} and {} overlap", b, a); });
    }
  }
}

}  // namespace plimsoll
