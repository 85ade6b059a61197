#include "plan/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace plimsoll {
namespace {

using Order = std::vector<std::size_t>;

bool overlap_in_time(const Interval& a, const Interval& b) { return a.begin < b.end && b.begin < a.end; }

// Places the buffers in this order, each at the lowest offset that is free for its whole life.
Packing place_in_order(std::span<const Interval> intervals, const Order& order) {
  Packing packing{.offsets = std::vector<std::size_t>(intervals.size(), 0)};
  std::vector<std::size_t> placed;  // by offset
  placed.reserve(intervals.size());
  for (const std::size_t i : order) {
    const Interval& interval = intervals[i];
    std::size_t offset = 0;
    if (interval.bytes > 0) {
      for (const std::size_t other : placed) {
        if (packing.offsets[other] >= offset + interval.bytes) break;
        if (overlap_in_time(interval, intervals[other])) {
          offset = std::max(offset, packing.offsets[other] + intervals[other].bytes);
        }
      }
      const auto position = std::upper_bound(placed.begin(), placed.end(), offset, [&](std::size_t value, std::size_t o) {
        return value < packing.offsets[o];
      });
      placed.insert(position, i);
    }
    packing.offsets[i] = offset;
    packing.bytes = std::max(packing.bytes, offset + interval.bytes);
  }
  return packing;
}

Order sorted_by(std::span<const Interval> intervals, const std::function<bool(const Interval&, const Interval&)>& before) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return before(intervals[a], intervals[b]); });
  return order;
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

Packing pack(std::span<const Interval> intervals, std::size_t alignment_bytes) {
  for (const Interval& interval : intervals) {
    check(interval.bytes % alignment_bytes == 0, "buffers to pack have aligned sizes");
  }
  const std::size_t bound = lower_bound_bytes(intervals);
  const auto length = [](const Interval& i) { return static_cast<double>(i.end - i.begin); };
  const auto area = [&](const Interval& i) { return length(i) * static_cast<double>(i.bytes); };
  const std::vector<std::function<bool(const Interval&, const Interval&)>> orders = {
      [](const Interval& a, const Interval& b) { return a.bytes > b.bytes; },
      [&](const Interval& a, const Interval& b) { return length(a) > length(b); },
      [&](const Interval& a, const Interval& b) { return area(a) > area(b); },
      [](const Interval& a, const Interval& b) { return a.begin < b.begin; },
      [](const Interval& a, const Interval& b) { return a.end > b.end; },
  };
  Packing best;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    Packing packing = place_in_order(intervals, sorted_by(intervals, orders[i]));
    if (i == 0 || packing.bytes < best.bytes) best = std::move(packing);
    if (best.bytes == bound) break;
  }
  // Guided restarts: whoever lies at the top goes first next time; two hundred rounds are plenty for graphs of a step.
  Order order = sorted_by(intervals, orders[1]);
  for (int round = 0; round < 200 && best.bytes > bound; ++round) {
    const Packing packing = place_in_order(intervals, order);
    if (packing.bytes < best.bytes) best = packing;
    const auto top = std::max_element(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return packing.offsets[a] + intervals[a].bytes < packing.offsets[b] + intervals[b].bytes;
    });
    // A third of the way to the front, so that old quarrels are not simply reversed.
    std::rotate(order.begin() + (top - order.begin()) / 3, top, top + 1);
  }
  return best;
}

void validate(std::span<const Interval> intervals, const Packing& packing, std::size_t alignment_bytes) {
  check(packing.offsets.size() == intervals.size(), "a packing has an offset for each buffer");
  for (std::size_t a = 0; a < intervals.size(); ++a) {
    check(packing.offsets[a] % alignment_bytes == 0, fmt::format("buffer {} is not aligned", a));
    check(packing.offsets[a] + intervals[a].bytes <= packing.bytes, fmt::format("buffer {} leaves the arena", a));
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = intervals[a].begin < intervals[b].end && intervals[b].begin < intervals[a].end;
      const bool apart = packing.offsets[a] + intervals[a].bytes <= packing.offsets[b] ||
                         packing.offsets[b] + intervals[b].bytes <= packing.offsets[a];
      check(!together || apart, fmt::format("buffers {} and {} overlap", b, a));
    }
  }
}

}  // namespace plimsoll
