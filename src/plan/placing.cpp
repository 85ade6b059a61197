#include "plan/placing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "plan/packing_search.h"

namespace plimsoll {
namespace {

using Order = std::vector<std::size_t>;

// The most comparisons of two buffers that all attempts together may take, about a nanosecond each.
constexpr double kMostLooks = 1.5e9;
// The number of times that buffers are placed again in a better order.
constexpr int kRepairRounds = 15;
constexpr int kRepairRoundsAroundPeak = 4;

// The end at which a buffer is put among those already placed.
enum class Side : std::uint8_t { kBottom, kTop };

// The bytes alive at each moment. Time is cut wherever a buffer begins or ends.
class Profile {
 public:
  explicit Profile(std::span<const Interval> intervals) {
    for (const Interval& interval : intervals) {
      times_.push_back(interval.begin);
      times_.push_back(interval.end);
    }
    std::sort(times_.begin(), times_.end());
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    std::vector<std::size_t> alive(times_.size(), 0);
    for (const Interval& interval : intervals) {
      for (std::size_t s = index(interval.begin); s < index(interval.end); ++s) alive[s] += interval.bytes;
    }
    most_.push_back(std::move(alive));
    for (std::size_t width = 1; 2 * width <= times_.size(); width *= 2) {
      const std::vector<std::size_t>& half = most_.back();
      std::vector<std::size_t> whole(half.size() - width);
      for (std::size_t s = 0; s < whole.size(); ++s) whole[s] = std::max(half[s], half[s + width]);
      most_.push_back(std::move(whole));
    }
  }

  // Returns the most bytes alive at any moment of the interval.
  std::size_t most(const Interval& interval) const {
    const std::size_t from = index(interval.begin), to = index(interval.end);
    std::size_t level = 0;
    while ((std::size_t{2} << level) <= to - from) ++level;
    return std::max(most_[level][from], most_[level][to - (std::size_t{1} << level)]);
  }

  // Returns the moments around the peak at which at least `bytes` are alive.
  Interval around_peak(std::size_t bytes) const {
    const std::vector<std::size_t>& alive = most_.front();
    std::size_t from = static_cast<std::size_t>(std::max_element(alive.begin(), alive.end()) - alive.begin());
    std::size_t to = from + 1;
    while (from > 0 && alive[from - 1] >= bytes) --from;
    while (to + 1 < alive.size() && alive[to] >= bytes) ++to;
    return {.begin = times_[from], .end = times_[to]};
  }

 private:
  std::size_t index(std::int64_t time) const {
    return static_cast<std::size_t>(std::lower_bound(times_.begin(), times_.end(), time) - times_.begin());
  }

  std::vector<std::int64_t> times_;
  std::vector<std::vector<std::size_t>> most_;  // [k][s]: for the 2^k pieces of time from s on
};

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
    if (intervals_[buffer].bytes > 0) place_at(buffer, find(intervals_[buffer], side));
  }

  void place_at(std::size_t buffer, std::size_t offset) {
    const Interval& interval = intervals_[buffer];
    const auto position = std::partition_point(placed_.begin(), placed_.end(),
                                               [&](const Placed& other) { return other.offset <= offset; });
    placed_.insert(position, {interval.begin, interval.end, offset, offset + interval.bytes});
    packing_.offsets[buffer] = offset;
    packing_.bytes = std::max(packing_.bytes, offset + interval.bytes);
    if (offset + interval.bytes > capacity_bytes_) beyond_.push_back(buffer);
  }

  // The buffers that found no room below the capacity.
  const Order& beyond() const { return beyond_; }
  Packing take() { return std::move(packing_); }

 private:
  struct Placed {
    std::int64_t begin, end;
    std::size_t offset, top;
  };

  // Returns the lowest or highest offset below the capacity that is free all the time; else the lowest one above it.
  std::size_t find(const Interval& interval, Side side) const {
    std::size_t free_from = 0;
    std::optional<std::size_t> lowest, highest;
    const auto look_at_gap = [&](std::size_t free_to) {
      if (free_to < free_from + interval.bytes) return;
      if (!lowest) lowest = free_from;
      const std::size_t end = std::min(free_to, capacity_bytes_);
      if (end >= free_from + interval.bytes) highest = end - interval.bytes;
    };
    for (const Placed& other : placed_) {
      if (other.begin >= interval.end || interval.begin >= other.end) continue;
      if (other.offset > free_from) look_at_gap(other.offset);
      if (lowest && side == Side::kBottom) return *lowest;
      free_from = std::max(free_from, other.top);
    }
    look_at_gap(std::numeric_limits<std::size_t>::max());
    return side == Side::kTop && highest ? *highest : *lowest;
  }

  std::span<const Interval> intervals_;
  std::size_t capacity_bytes_;
  std::vector<Placed> placed_;  // by offset
  Order beyond_;
  Packing packing_;
};

// Activations are born in forward and die in backward, the first one last, like a stack. Gradients pile up while it
// shrinks. Both stay within the bound if they grow towards each other, so buffers that live late go to the other side.
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

// Decides which buffers are placed first: those with the larger first key, then those with the larger second key.
enum class Rule : std::uint8_t { kPressureThenSize, kPressureThenLength, kSize, kLength, kArea };
constexpr std::array<Rule, 5> kRules = {Rule::kPressureThenSize, Rule::kPressureThenLength, Rule::kSize, Rule::kLength,
                                        Rule::kArea};

class Placing {
 public:
  Placing(std::span<const Interval> intervals, std::size_t goal)
      : intervals_(intervals),
        goal_(goal),
        profile_(intervals),
        below_(intervals.size(), Side::kBottom),
        both_(two_sides(intervals)) {
    const auto buffers = static_cast<double>(intervals.size());
    attempts_left_ = static_cast<int>(std::clamp(kMostLooks / std::max(1.0, buffers * buffers), 2.0, 1000.0));
    for (const Rule rule : kRules) orders_.push_back(ordered_by(rule));
  }

  Packing run() {
    straight();
    if (!done()) peak_first();
    if (!done()) repaired();
    return std::move(best_);
  }

 private:
  bool done() const { return reached() || attempts_left_ <= 0; }
  bool reached() const { return !best_.offsets.empty() && best_.bytes <= goal_; }

  void keep(Placer& placer) {
    --attempts_left_;
    Packing packing = placer.take();
    if (best_.offsets.empty() || packing.bytes < best_.bytes) best_ = std::move(packing);
  }

  Order ordered_by(Rule rule) const {
    std::vector<std::pair<double, double>> key;
    for (const Interval& interval : intervals_) {
      const auto length = static_cast<double>(interval.end - interval.begin);
      const auto size = static_cast<double>(interval.bytes);
      const auto pressure = static_cast<double>(profile_.most(interval));
      switch (rule) {
        case Rule::kPressureThenSize:
          key.emplace_back(pressure, size);
          break;
        case Rule::kPressureThenLength:
          key.emplace_back(pressure, length);
          break;
        case Rule::kSize:
          key.emplace_back(size, 0);
          break;
        case Rule::kLength:
          key.emplace_back(length, 0);
          break;
        case Rule::kArea:
          key.emplace_back(length * size, 0);
          break;
      }
    }
    Order order(intervals_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key[a] > key[b]; });
    return order;
  }

  // Tries orders that suit most graphs, placed from both sides or from below.
  void straight() {
    for (const std::vector<Side>& sides : {both_, below_}) {
      for (const Order& order : orders_) {
        Placer placer(intervals_, goal_);
        for (const std::size_t buffer : order) placer.place(buffer, sides[buffer]);
        keep(placer);
        if (done()) return;
      }
    }
  }

  // A buffer without room moves half its distance to the front, so that old conflicts are not simply reversed.
  static void put_forward(Order& order, const Order& late) {
    std::vector<double> rank(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
    for (const std::size_t buffer : late) rank[buffer] = rank[buffer] / 2 - 0.5;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank[a] < rank[b]; });
  }

  // Places `first` at `offsets`, then the others by `order`, and again in better orders.
  void place_and_repair(const Order& first, const std::vector<std::size_t>& offsets, Order order,
                        const std::vector<Side>& sides, int rounds) {
    std::vector<char> is_first(intervals_.size(), 0);
    for (const std::size_t buffer : first) is_first[buffer] = 1;
    for (int round = 0; round < rounds && !done(); ++round) {
      Placer placer(intervals_, goal_);
      for (const std::size_t buffer : first) placer.place_at(buffer, offsets[buffer]);
      for (const std::size_t buffer : order) {
        if (is_first[buffer] == 0) placer.place(buffer, sides[buffer]);
      }
      put_forward(order, placer.beyond());
      keep(placer);
    }
  }

  void repaired() {
    for (const Order& order : orders_) place_and_repair({}, {}, order, both_, kRepairRounds);
  }

  // At the peak there is no room to spare, elsewhere there is. Buffers that live through all moments around the peak
  // are stacked on the ground; those that come and go in them form a small problem of their own, which the search
  // solves; then the rest is placed around both.
  void peak_first() {
    const std::size_t peak = lower_bound_bytes(intervals_);
    for (const double share : {0.99, 0.97, 0.94, 0.9, 0.85, 0.75}) {
      const Interval window = profile_.around_peak(static_cast<std::size_t>(share * static_cast<double>(peak)));
      Order lasting, passing;
      for (std::size_t b = 0; b < intervals_.size(); ++b) {
        const Interval& interval = intervals_[b];
        if (interval.bytes == 0 || interval.begin >= window.end || window.begin >= interval.end) continue;
        const bool lasts = interval.begin <= window.begin && window.end <= interval.end;
        (lasts ? lasting : passing).push_back(b);
      }
      std::vector<std::size_t> offsets(intervals_.size(), 0);
      std::size_t ground = 0;
      for (const std::size_t b : lasting) ground += intervals_[b].bytes;
      if (ground > goal_ || !pack_passing(window, passing, ground, offsets)) continue;
      Order first = lasting;
      first.insert(first.end(), passing.begin(), passing.end());
      for (const bool by_length : {true, false}) {
        stack(lasting, by_length, offsets);
        for (const std::size_t rule : {0U, 1U}) {
          for (const std::vector<Side>& sides : {both_, below_}) {
            place_and_repair(first, offsets, orders_[rule], sides, kRepairRoundsAroundPeak);
            if (done()) return;
          }
        }
      }
    }
  }

  // The buffers that live longest, or were born first, go to the ground.
  void stack(Order& lasting, bool by_length, std::vector<std::size_t>& offsets) const {
    std::stable_sort(lasting.begin(), lasting.end(), [&](std::size_t a, std::size_t b) {
      const Interval &first = intervals_[a], &second = intervals_[b];
      return by_length ? first.end - first.begin > second.end - second.begin : first.begin < second.begin;
    });
    std::size_t top = 0;
    for (const std::size_t b : lasting) {
      offsets[b] = top;
      top += intervals_[b].bytes;
    }
  }

  // Finds offsets above `ground` for those that come and go in the window; returns false if none are below the goal.
  bool pack_passing(const Interval& window, const Order& passing, std::size_t ground,
                    std::vector<std::size_t>& offsets) const {
    constexpr std::size_t kMostSearched = 1000;
    constexpr std::int64_t kMostSteps = 5'000'000;
    std::vector<Interval> cut;
    for (const std::size_t b : passing) {
      const Interval& interval = intervals_[b];
      cut.push_back({.begin = std::max(interval.begin, window.begin),
                     .end = std::min(interval.end, window.end),
                     .bytes = interval.bytes});
    }
    std::vector<std::size_t> found;
    Placing placing(cut, goal_ - ground);
    if (!cut.empty()) placing.straight();
    if (cut.empty() || placing.reached()) {
      found = std::move(placing.best_.offsets);
    } else if (cut.size() <= kMostSearched) {
      SearchResult result = search_packing(cut, goal_ - ground, kMostSteps);
      if (result.verdict == SearchVerdict::kFound) found = std::move(result.offsets);
    }
    if (found.size() != passing.size()) return false;
    for (std::size_t i = 0; i < passing.size(); ++i) offsets[passing[i]] = ground + found[i];
    return true;
  }

  std::span<const Interval> intervals_;
  const std::size_t goal_;
  const Profile profile_;
  const std::vector<Side> below_, both_;
  std::vector<Order> orders_;  // in the order of kRules
  int attempts_left_ = 0;
  Packing best_;
};

}  // namespace

Packing place_buffers(std::span<const Interval> intervals, std::size_t goal) {
  if (intervals.empty()) return {};
  return Placing(intervals, goal).run();
}

}  // namespace plimsoll
