#include "plan/packing_state.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;
// With more spare units than this, sums of sizes reach nearly every offset, and excluding some is not worth the work.
constexpr std::int64_t kShortSpareUnits = 40;
// Excluding an offset can exclude others; this many rounds of that follow each decision.
constexpr int kExclusionRounds = 2;

// Problems of up to this many buffers are checked everywhere after each step; for larger ones that takes too long.
constexpr std::size_t kThoroughBuffers = 500;

// Returns the starts of the moments that no neighbour contains: after each, a buffer ends before the next begins.
std::vector<std::int64_t> section_times(std::span<const Interval> intervals) {
  std::vector<std::int64_t> begins, ends, times;
  for (const Interval& interval : intervals) {
    begins.push_back(interval.begin);
    ends.push_back(interval.end);
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  std::sort(ends.begin(), ends.end());
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const auto end = std::upper_bound(ends.begin(), ends.end(), begins[i]);
    if (i + 1 == begins.size() || (end != ends.end() && *end <= begins[i + 1])) times.push_back(begins[i]);
  }
  return times;
}

}  // namespace

SectionedProblem::SectionedProblem(std::span<const Interval> intervals, std::size_t capacity_bytes) {
  unit_bytes = 0;
  for (const Interval& interval : intervals) {
    check(interval.begin < interval.end && interval.bytes > 0, "every buffer has a lifetime and bytes");
    unit_bytes = std::gcd(unit_bytes, interval.bytes);
  }
  unit_bytes = std::max<std::size_t>(unit_bytes, 1);
  capacity = static_cast<std::int64_t>(capacity_bytes / unit_bytes);
  const std::vector<std::int64_t> times = section_times(intervals);
  members.resize(times.size());
  for (const Interval& interval : intervals) {
    const auto index = [&](std::int64_t time) {
      return static_cast<std::size_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
    };
    first.push_back(index(interval.begin));
    last.push_back(index(interval.end) - 1);
    for (std::size_t s = first.back(); s <= last.back(); ++s) members[s].push_back(static_cast<Index>(size.size()));
    size.push_back(static_cast<std::int64_t>(interval.bytes / unit_bytes));
  }
}

void PackingState::add_shifted(Offsets& offsets, std::int64_t by) {
  if (by <= 0 || by >= kGridUnits) return;
  const auto words = static_cast<std::size_t>(by / 64), bits = static_cast<std::size_t>(by % 64);
  for (std::size_t w = offsets.size(); w-- > words;) {
    std::uint64_t moved = offsets[w - words] << bits;
    if (bits > 0 && w > words) moved |= offsets[w - words - 1] >> (64 - bits);
    offsets[w] |= moved;
  }
}

std::int64_t PackingState::next_offset(const Offsets& offsets, std::int64_t from) {
  if (from >= kGridUnits) return kGridUnits;
  auto word = static_cast<std::size_t>(from / 64);
  std::uint64_t bits = offsets[word] & (~std::uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == offsets.size()) return kGridUnits;
    bits = offsets[word];
  }
  return static_cast<std::int64_t>(word) * 64 + __builtin_ctzll(bits);
}

PackingState::PackingState(const SectionedProblem& problem)
    : problem_(problem),
      thorough_(problem.buffers() <= kThoroughBuffers),
      blame_(problem.sections(), 1.0),
      is_touched_(problem.sections(), 0),
      offsets_(problem.capacity <= kGridUnits ? problem.sections() : 0),
      offsets_round_(problem.sections(), 0),
      buffer_round_(problem.buffers(), 0) {}

bool PackingState::reset() {
  const std::size_t sections = problem_.sections();
  placed_.assign(problem_.buffers(), 0);
  lowest_.assign(problem_.buffers(), 0);
  level_.assign(sections, 0);
  spare_.assign(sections, 0);
  remaining_units_.assign(sections, 0);
  remaining_.assign(sections, 0);
  crossing_.assign(sections, 0);
  stacks_.assign(sections, {});
  trail_.clear();
  for (std::size_t s = 0; s < sections; ++s) {
    for (const std::size_t b : problem_.members[s]) {
      remaining_units_[s] += problem_.size[b];
      ++remaining_[s];
      if (problem_.last[b] > s) ++crossing_[s];
    }
  }
  starters_.assign(sections, 0);
  top_.assign(sections, 0);
  for (std::size_t s = 0; s < sections; ++s) touch(s);
  return propagate();
}

void PackingState::touch(std::size_t section) {
  if (is_touched_[section] != 0) return;
  is_touched_[section] = 1;
  touched_.push_back(section);
}

void PackingState::forget_touched() {
  for (const std::size_t s : touched_) is_touched_[s] = 0;
  touched_.clear();
}

void PackingState::raise(std::size_t buffer, std::int64_t lowest) {
  const std::int64_t before = lowest_[buffer];
  trail_.push_back({Kind::kLowest, buffer, before});
  lowest_[buffer] = lowest;
  for (std::size_t s = problem_.first[buffer]; s <= problem_.last[buffer]; ++s) {
    if (before == level_[s]) --starters_[s];
    if (thorough_ || starters_[s] == 0) touch(s);
  }
}

// Returns the lowest offset from `from` on at which the buffer overlaps none that has been placed.
std::int64_t PackingState::first_fit(std::size_t buffer, std::int64_t from) {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = problem_.first[buffer]; s <= problem_.last[buffer]; ++s) {
      if (top_[s] <= from) continue;
      const std::vector<SectionedProblem::Index>& stack = stacks_[s];
      // Buffers that end at or below `from` are no obstacle.
      auto other = std::partition_point(stack.begin(), stack.end(),
                                        [&](std::size_t b) { return lowest_[b] + problem_.size[b] <= from; });
      for (; other != stack.end() && lowest_[*other] < from + problem_.size[buffer]; ++other) {
        from = lowest_[*other] + problem_.size[*other];
        moved = true;
        ++work_;
      }
    }
    work_ += static_cast<std::int64_t>((problem_.last[buffer] - problem_.first[buffer]) / 4 + 1);
  }
  return from;
}

bool PackingState::place(std::size_t buffer) {
  const std::int64_t offset = lowest_[buffer], top = offset + problem_.size[buffer];
  placed_[buffer] = 1;
  trail_.push_back({Kind::kPlaced, buffer, 0});
  for (std::size_t s = problem_.first[buffer]; s <= problem_.last[buffer]; ++s) {
    remaining_units_[s] -= problem_.size[buffer];
    --remaining_[s];
    if (s < problem_.last[buffer]) --crossing_[s];
    if (offset == level_[s]) --starters_[s];
    if (thorough_ || starters_[s] == 0) touch(s);
    std::vector<SectionedProblem::Index>& stack = stacks_[s];
    stack.insert(std::partition_point(stack.begin(), stack.end(), [&](std::size_t b) { return lowest_[b] < offset; }),
                 static_cast<SectionedProblem::Index>(buffer));
    top_[s] = std::max(top_[s], top);
  }
  for (std::size_t b = 0; b < problem_.buffers(); ++b) {
    const bool in_the_way =
        placed_[b] == 0 && problem_.meet(b, buffer) && lowest_[b] < top && lowest_[b] + problem_.size[b] > offset;
    if (in_the_way) raise(b, first_fit(b, top));
  }
  work_ += static_cast<std::int64_t>(problem_.buffers());
  return propagate();
}

// If a packing exists, one exists in which every buffer lies on the ground or on another one. So assume that no buffer
// of the section starts at its level, and let L be the lowest of its remaining buffers: L lies on a placed buffer whose
// top is above the level, or on a remaining one that does not live in the section (it would be lower than L). All the
// others of the section lie on or above L.
bool PackingState::leave_gap(std::size_t section) {
  const std::int64_t level = level_[section];
  std::vector<std::size_t> buffers;
  std::vector<std::int64_t> as_lowest;  // the lowest offset of each if it were L
  for (const std::size_t b : problem_.members[section]) {
    if (placed_[b] != 0) continue;
    std::int64_t bound = lowest_[b];
    if (bound == level) {
      bound = kNever;
      for (std::size_t o = 0; o < problem_.buffers(); ++o) {
        if (o == b || !problem_.meet(o, b)) continue;
        const std::int64_t top = lowest_[o] + problem_.size[o];
        if (placed_[o] != 0) {
          if (top > level) bound = std::min(bound, top);
        } else if (!problem_.lives_in(o, section)) {
          bound = std::min(bound, std::max(level + 1, top));
        }
      }
      work_ += static_cast<std::int64_t>(problem_.buffers());
    }
    buffers.push_back(b);
    as_lowest.push_back(bound);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::int64_t bound = as_lowest[i];
    for (std::size_t j = 0; j < buffers.size(); ++j) {
      if (i != j) bound = std::min(bound, as_lowest[j] + problem_.size[buffers[j]]);
    }
    if (bound <= lowest_[buffers[i]]) continue;
    if (bound + problem_.size[buffers[i]] > problem_.capacity) {
      ++blame_[section];
      forget_touched();
      return false;
    }
    raise(buffers[i], first_fit(buffers[i], bound));
  }
  work_ += static_cast<std::int64_t>(buffers.size() * buffers.size());
  return propagate();
}

void PackingState::undo(std::size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    switch (change.kind) {
      case Kind::kLowest:
        lowest_[change.index] = change.before;
        for (std::size_t s = problem_.first[change.index]; s <= problem_.last[change.index]; ++s) {
          if (change.before == level_[s]) ++starters_[s];
        }
        break;
      case Kind::kStarters:
        starters_[change.index] = change.before;
        break;
      case Kind::kLevel:
        level_[change.index] = change.before;
        break;
      case Kind::kSpare:
        spare_[change.index] = change.before;
        break;
      case Kind::kPlaced: {
        const std::size_t buffer = change.index;
        placed_[buffer] = 0;
        for (std::size_t s = problem_.first[buffer]; s <= problem_.last[buffer]; ++s) {
          remaining_units_[s] += problem_.size[buffer];
          ++remaining_[s];
          if (s < problem_.last[buffer]) ++crossing_[s];
          if (lowest_[buffer] == level_[s]) ++starters_[s];
          std::vector<SectionedProblem::Index>& stack = stacks_[s];
          stack.erase(std::find(stack.begin(), stack.end(), buffer));
          top_[s] = stack.empty() ? 0 : lowest_[stack.back()] + problem_.size[stack.back()];
        }
        break;
      }
    }
  }
}

bool PackingState::propagate() {
  bool fits = true;
  for (int round = 0; fits && !touched_.empty(); ++round) {
    std::vector<std::size_t> sections;
    sections.swap(touched_);
    for (const std::size_t s : sections) is_touched_[s] = 0;
    for (const std::size_t s : sections) {
      if (remaining_[s] > 0 && !settle(s)) {
        fits = false;
        break;
      }
    }
    if (fits && !offsets_.empty() && round < kExclusionRounds) fits = exclude_offsets(sections);
  }
  forget_touched();
  return fits;
}

// Updates the section's level and spare and stacks its buffers; returns false if they rise above the capacity.
bool PackingState::settle(std::size_t section) {
  releases_.clear();
  std::int64_t level = kNever, highest = 0, starters = 0;
  for (const std::size_t b : problem_.members[section]) {
    if (placed_[b] != 0) continue;
    if (lowest_[b] < level) starters = 0;
    level = std::min(level, lowest_[b]);
    if (lowest_[b] == level) ++starters;
    highest = std::max(highest, lowest_[b]);
    releases_.emplace_back(lowest_[b], problem_.size[b]);
  }
  work_ += static_cast<std::int64_t>(problem_.members[section].size());
  std::int64_t islands = 0;  // buffers placed above the level
  const std::vector<SectionedProblem::Index>& stack = stacks_[section];
  for (auto b = stack.rbegin(); b != stack.rend() && lowest_[*b] >= level; ++b) {
    islands += problem_.size[*b];
    highest = std::max(highest, lowest_[*b]);
    releases_.emplace_back(lowest_[*b], problem_.size[*b]);
  }
  if (level != level_[section]) {
    trail_.push_back({Kind::kLevel, section, level_[section]});
    level_[section] = level;
  }
  if (starters != starters_[section]) {
    trail_.push_back({Kind::kStarters, section, starters_[section]});
    starters_[section] = starters;
  }
  const std::int64_t spare = problem_.capacity - level - islands - remaining_units_[section];
  if (spare != spare_[section]) {
    trail_.push_back({Kind::kSpare, section, spare_[section]});
    spare_[section] = spare;
  }
  bool fits = spare >= 0;
  if (fits && highest - level > spare) {  // otherwise even a gap up to the highest would be possible
    std::sort(releases_.begin(), releases_.end());
    std::int64_t top = 0;
    for (const auto& [lowest, size] : releases_) top = std::max(top, lowest) + size;
    work_ += static_cast<std::int64_t>(4 * releases_.size());
    fits = top <= problem_.capacity;
  }
  if (!fits) ++blame_[section];
  return fits;
}

bool PackingState::short_of_spare(std::size_t section) const {
  return remaining_[section] > 0 && spare_[section] <= kShortSpareUnits;
}

// Returns the offsets that a remaining buffer can have according to this section.
const PackingState::Offsets& PackingState::offsets_in(std::size_t section) {
  Offsets& offsets = offsets_[section];
  if (offsets_round_[section] == round_) return offsets;
  offsets_round_[section] = round_;
  offsets.fill(0);
  const std::int64_t level = level_[section];
  offsets[static_cast<std::size_t>(level / 64)] |= std::uint64_t{1} << (level % 64);
  for (const std::size_t b : problem_.members[section]) {
    if (placed_[b] == 0 || lowest_[b] >= level) add_shifted(offsets, problem_.size[b]);
  }
  for (std::int64_t reached = 0; reached < spare_[section];) {  // and further, up to the spare
    const std::int64_t step = std::min(spare_[section] - reached, reached + 1);
    add_shifted(offsets, step);
    reached += step;
  }
  work_ += static_cast<std::int64_t>(offsets.size() * problem_.members[section].size());
  return offsets;
}

bool PackingState::exclude_offsets(std::span<const std::size_t> sections) {
  ++round_;
  for (const std::size_t s : sections) {
    if (!short_of_spare(s)) continue;
    for (const std::size_t b : problem_.members[s]) {
      if (placed_[b] != 0 || buffer_round_[b] == round_) continue;
      buffer_round_[b] = round_;
      if (!exclude_offsets_of(b)) return false;
    }
  }
  return true;
}

bool PackingState::exclude_offsets_of(std::size_t buffer) {
  Offsets offsets;
  offsets.fill(~std::uint64_t{0});
  const std::size_t first = problem_.first[buffer], last = problem_.last[buffer];
  for (std::size_t s = first; s <= last; ++s) {
    if (!short_of_spare(s)) continue;
    const Offsets& here = offsets_in(s);
    for (std::size_t w = 0; w < offsets.size(); ++w) offsets[w] &= here[w];
    work_ += static_cast<std::int64_t>(offsets.size());
  }
  std::int64_t lowest = lowest_[buffer];
  for (bool moved = true; moved && lowest + problem_.size[buffer] <= problem_.capacity;) {
    const std::int64_t reachable = next_offset(offsets, lowest);
    lowest = reachable < kGridUnits ? first_fit(buffer, reachable) : kNever;
    moved = lowest != reachable;
  }
  if (lowest + problem_.size[buffer] > problem_.capacity) {
    for (std::size_t s = first; s <= last; ++s) {
      if (short_of_spare(s)) blame_[s] += 1.0 / static_cast<double>(last - first + 1);
    }
    return false;
  }
  if (lowest != lowest_[buffer]) raise(buffer, lowest);
  return true;
}

}  // namespace plimsoll
