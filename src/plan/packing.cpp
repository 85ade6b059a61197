#include "plan/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "plan/packing_search.h"

namespace plimsoll {
namespace {

// The search recurses once a buffer.
constexpr std::size_t kMostSearched = 6000;
// Of placing again in a better order, for each rule.
constexpr int kRounds = 20;

// What a plan is worth: a straight run to a packing takes 20 to 100 steps a squared number of buffers.
std::int64_t default_steps(std::int64_t buffers) {
  constexpr std::int64_t kFewest = 30'000'000, kMost = 450'000'000, kPerSquaredBuffer = 250;
  return std::clamp(kPerSquaredBuffer * buffers * buffers, kFewest, kMost);
}

using Order = std::vector<std::size_t>;

bool overlap_in_time(const Interval& a, const Interval& b) { return a.begin < b.end && b.begin < a.end; }

// Where a buffer is put among those that are there already.
enum class Side : std::uint8_t { kBottom, kTop };

// Builds a packing by placing one buffer after the other.
class Placer {
 public:
  Placer(std::span<const Interval> intervals, std::size_t capacity_bytes)
      : intervals_(intervals),
        capacity_bytes_(capacity_bytes),
        packing_{.offsets = std::vector<std::size_t>(intervals.size())} {
    placed_.reserve(intervals.size());
  }

  void place(std::size_t buffer, Side side) {
    const std::size_t bytes = intervals_[buffer].bytes;
    if (bytes == 0) return;
    const std::size_t offset = find(intervals_[buffer], side);
    const auto position = std::partition_point(placed_.begin(), placed_.end(),
                                               [&](std::size_t other) { return packing_.offsets[other] <= offset; });
    placed_.insert(position, buffer);
    packing_.offsets[buffer] = offset;
    packing_.bytes = std::max(packing_.bytes, offset + bytes);
  }

  Packing take() { return std::move(packing_); }

 private:
  // The lowest or the highest offset below the capacity that is free for the whole interval; else the lowest beyond it.
  std::size_t find(const Interval& interval, Side side) const {
    std::size_t free_from = 0;
    std::optional<std::size_t> lowest, highest;
    const auto look_at_gap = [&](std::size_t free_to) {
      if (free_to < free_from + interval.bytes) return;
      if (!lowest) lowest = free_from;
      const std::size_t end = std::min(free_to, capacity_bytes_);
      if (end >= free_from + interval.bytes) highest = end - interval.bytes;
    };
    for (const std::size_t other : placed_) {
      if (!overlap_in_time(interval, intervals_[other])) continue;
      look_at_gap(packing_.offsets[other]);
      if (lowest && side == Side::kBottom) return *lowest;
      free_from = std::max(free_from, packing_.offsets[other] + intervals_[other].bytes);
    }
    look_at_gap(std::numeric_limits<std::size_t>::max());
    return side == Side::kTop && highest ? *highest : *lowest;
  }

  std::span<const Interval> intervals_;
  std::size_t capacity_bytes_;
  std::vector<std::size_t> placed_;  // by offset
  Packing packing_;
};

using Before = std::function<bool(const Interval&, const Interval&)>;

Order sorted_by(std::span<const Interval> intervals, const Before& before) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return before(intervals[a], intervals[b]); });
  return order;
}

// Activations are born in forward and die in backward, the first last: a stack. Gradients pile up while it shrinks. The
// two never need more than the bound if they grow towards each other, so what lives late goes to the other side.
std::vector<Side> two_sides(std::span<const Interval> intervals) {
  std::int64_t first = 0, last = 0;
  for (const Interval& interval : intervals) {
    first = std::min(first, interval.begin);
    last = std::max(last, interval.end);
  }
  std::vector<Side> sides;
  sides.reserve(intervals.size());
  for (const Interval& interval : intervals) {
    sides.push_back(interval.begin - first > last - interval.end ? Side::kTop : Side::kBottom);
  }
  return sides;
}

std::vector<Before> placing_rules() {
  const auto length = [](const Interval& i) { return static_cast<double>(i.end - i.begin); };
  const auto area = [=](const Interval& i) { return length(i) * static_cast<double>(i.bytes); };
  return {[](const Interval& a, const Interval& b) { return a.bytes > b.bytes; },
          [=](const Interval& a, const Interval& b) { return length(a) > length(b); },
          [=](const Interval& a, const Interval& b) { return area(a) > area(b); }};
}

Packing place_in_order(std::span<const Interval> intervals, const Order& order, std::span<const Side> sides,
                       std::size_t capacity_bytes) {
  Placer placer(intervals, capacity_bytes);
  for (const std::size_t buffer : order) placer.place(buffer, sides[buffer]);
  return placer.take();
}

// The best of a few orders that suit most graphs, placed from below or from both sides; the first that reaches the
// goal. Then a few rounds in which whoever lies at the top is placed earlier.
Packing place_in_orders(std::span<const Interval> intervals, std::size_t goal) {
  const std::vector<Side> all_below(intervals.size(), Side::kBottom);
  const std::vector<Side> both = two_sides(intervals);
  Packing best;
  const auto improve = [&](const Packing& packing) {
    if (best.offsets.empty() || packing.bytes < best.bytes) best = packing;
  };
  for (const Before& rule : placing_rules()) {
    improve(place_in_order(intervals, sorted_by(intervals, rule), all_below, goal));
    if (best.bytes <= goal) return best;
  }
  for (const Before& rule : placing_rules()) {
    Order order = sorted_by(intervals, rule);
    for (int round = 0; round < kRounds && best.bytes > goal; ++round) {
      const Packing packing = place_in_order(intervals, order, both, goal);
      improve(packing);
      const auto top = std::max_element(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return packing.offsets[a] + intervals[a].bytes < packing.offsets[b] + intervals[b].bytes;
      });
      // A third of the way to the front, so that old quarrels are not simply reversed.
      std::rotate(order.begin() + (top - order.begin()) / 3, top, top + 1);
    }
  }
  return best;
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
    return a.time != b.time ? a.time < b.time : a.starts < b.starts;  // ends first
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
    check(interval.begin < interval.end, "buffers to pack live");
    check(interval.bytes % alignment_bytes == 0, "buffers to pack have aligned sizes");
  }
  const std::size_t bound = lower_bound_bytes(intervals);
  const std::size_t goal = std::max(bound, options.capacity_bytes);
  Packing best = place_in_orders(intervals, goal);
  if (best.bytes <= goal || intervals.size() > kMostSearched) return best;
  const auto buffers = static_cast<std::int64_t>(intervals.size());
  std::int64_t left = options.max_steps > 0 ? options.max_steps : default_steps(buffers);
  const auto search = [&](std::size_t capacity, std::int64_t most_steps) {
    if (capacity >= best.bytes || most_steps <= 0) return false;
    const SearchResult result = search_packing(intervals, capacity, most_steps);
    left -= result.steps;
    if (result.verdict == SearchVerdict::kFound) best = to_packing(intervals, result.offsets);
    return result.verdict == SearchVerdict::kFound;
  };
  if (options.capacity_bytes > 0) {
    search(goal, left);
    return best;
  }
  // A little room makes the search far easier; the bound itself is tried afterwards, for about as long as that took.
  const std::int64_t before = left;
  const bool is_near = search(bound + bound / 400, left / 2) || search(bound + bound / 100, left / 2) ||
                       search(bound + bound / 20, left);
  if (is_near) {
    search(bound, std::min(left, 2 * (before - left)));
  } else {
    while (search(best.bytes - alignment_bytes, left)) {
    }
  }
  return best;
}

void validate(std::span<const Interval> intervals, const Packing& packing, std::size_t alignment_bytes) {
  check(packing.offsets.size() == intervals.size(), "a packing has an offset for each buffer");
  for (std::size_t a = 0; a < intervals.size(); ++a) {
    if (packing.offsets[a] % alignment_bytes != 0) check(false, fmt::format("buffer {} is not aligned", a));
    if (packing.offsets[a] + intervals[a].bytes > packing.bytes) {
      check(false, fmt::format("buffer {} leaves the arena", a));
    }
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = intervals[a].begin < intervals[b].end && intervals[b].begin < intervals[a].end;
      const bool apart = packing.offsets[a] + intervals[a].bytes <= packing.offsets[b] ||
                         packing.offsets[b] + intervals[b].bytes <= packing.offsets[a];
      if (together && !apart) check(false, fmt::format("buffers {} and {} overlap", b, a));
    }
  }
}

}  // namespace plimsoll
