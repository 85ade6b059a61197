#include "plan/packing_search.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/philox.h"
#include "plan/packing_state.h"

namespace plimsoll {
namespace {

enum class Rank : std::uint8_t { kArea, kSize, kLength };

struct Strategy {
  bool lowest_level;    // go up level by level; else choose the tightest section
  bool few_candidates;  // prefer sections in which few buffers can start at the level
  bool heed_blame;      // prefer sections in which packings often failed
  Rank rank;            // the order in which buffers are tried
};

// Chosen on graphs of training steps (the first two) and on the problems published with MiniMalloc (each solves some
// that the others do not).
constexpr std::array<Strategy, 8> kStrategies = {{{true, false, false, Rank::kSize},
                                                  {true, false, false, Rank::kLength},
                                                  {true, true, false, Rank::kArea},
                                                  {true, false, false, Rank::kArea},
                                                  {false, true, false, Rank::kLength},
                                                  {false, true, false, Rank::kSize},
                                                  {true, true, true, Rank::kArea},
                                                  {true, true, true, Rank::kLength}}};

class Search {
 public:
  Search(const SectionedProblem& problem, std::int64_t max_steps)
      : problem_(problem), state_(problem), max_steps_(max_steps), rank_(problem.buffers()) {}

  SearchVerdict run() {
    // A direct run to the end takes about one node for each buffer; each round may search a little more.
    auto nodes = static_cast<std::int64_t>(problem_.buffers() + problem_.buffers() / 32 + 100);
    // Each strategy learns separately, because what is hard for one is easy for another.
    std::vector<std::vector<double>> blame(kStrategies.size(), std::vector<double>(problem_.sections(), 1.0));
    for (std::uint32_t round = 0;; ++round) {
      for (std::size_t s = 0; s < kStrategies.size(); ++s) {
        strategy_ = kStrategies[s];
        rank_buffers(round, static_cast<std::uint32_t>(s));
        nodes_left_ = nodes;
        state_.swap_blame(blame[s]);
        const bool found = state_.reset() && (problem_.sections() == 0 || solve(0, problem_.sections() - 1));
        state_.swap_blame(blame[s]);
        if (found) return SearchVerdict::kFound;
        if (nodes_left_ > 0 && !exhausted()) return SearchVerdict::kImpossible;
        if (exhausted()) return SearchVerdict::kGaveUp;
      }
      nodes += nodes / 16;
    }
  }

  const PackingState& state() const { return state_; }

 private:
  bool exhausted() const { return state_.work() > max_steps_; }

  // The first round uses the plain ranks; later ones shuffle, alternately a little and a lot.
  void rank_buffers(std::uint32_t round, std::uint32_t strategy) {
    for (std::size_t b = 0; b < problem_.buffers(); ++b) {
      const auto length = static_cast<double>(problem_.last[b] - problem_.first[b] + 1);
      const auto size = static_cast<double>(problem_.size[b]);
      rank_[b] = strategy_.rank == Rank::kArea ? length * size : strategy_.rank == Rank::kSize ? size : length;
      if (round > 0) {
        const auto random = philox4x32({static_cast<std::uint32_t>(b), round, strategy, 0}, {0, 0});
        const double amplitude = round % 2 == 1 ? 0.2 : 0.6;
        rank_[b] *= 1 + amplitude * (2 * static_cast<double>(uniform_float(random[0])) - 1);
      }
    }
  }

  // Places the remaining buffers of sections first..last, none of which extends beyond them.
  bool solve(std::size_t first, std::size_t last) {
    if (--nodes_left_ <= 0 || exhausted()) return false;
    const std::size_t mark = state_.mark();
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t s = first; s <= last; ++s) {
      if (state_.remaining(s) == 0) continue;
      if (parts.empty() || parts.back().second < s) parts.emplace_back(s, s);
      if (state_.crossing(s) > 0) parts.back().second = s + 1;
    }
    if (parts.empty()) return true;
    if (parts.size() == 1) return branch(parts[0].first, parts[0].second);
    // The smallest part comes first: if one is hopeless, this shows it soon.
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
    for (const auto& [from, to] : parts) {
      if (solve(from, to)) continue;
      state_.undo(mark);
      return false;
    }
    return true;
  }

  bool branch(std::size_t first, std::size_t last) {
    const std::size_t mark = state_.mark();
    const std::size_t section = choose_section(first, last);
    const std::vector<std::size_t> candidates = candidates_of(section);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::size_t b = candidates[i];
      const auto is_twin = [&](std::size_t o) {
        return problem_.first[o] == problem_.first[b] && problem_.last[o] == problem_.last[b] &&
               problem_.size[o] == problem_.size[b];
      };
      const auto end_of_failed = candidates.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::any_of(candidates.begin(), end_of_failed, is_twin)) continue;
      if (state_.place(b) && solve(first, last)) return true;
      state_.undo(mark);
      if (nodes_left_ <= 0 || exhausted()) return false;
    }
    if (state_.spare(section) > 0 && state_.leave_gap(section) && solve(first, last)) return true;
    state_.undo(mark);
    return false;
  }

  std::size_t choose_section(std::size_t first, std::size_t last) const {
    std::size_t best = last + 1;
    std::pair<double, double> best_key;
    for (std::size_t s = first; s <= last; ++s) {
      if (state_.remaining(s) == 0) continue;
      const auto level = static_cast<double>(state_.level(s));
      if (strategy_.lowest_level && best <= last && level > best_key.first) continue;
      double score = static_cast<double>(state_.spare(s)) + 1;
      if (strategy_.few_candidates) score *= static_cast<double>(count_candidates(s));
      if (strategy_.heed_blame) score /= state_.blame(s);
      const std::pair<double, double> key = strategy_.lowest_level ? std::pair(level, score) : std::pair(score, level);
      if (best <= last && key >= best_key) continue;
      best = s;
      best_key = key;
    }
    return best;
  }

  bool can_start(std::size_t buffer, std::size_t section) const {
    return !state_.placed(buffer) && state_.lowest(buffer) == state_.level(section);
  }

  std::size_t count_candidates(std::size_t section) const {
    std::size_t count = 0;
    for (const std::size_t b : problem_.members[section]) count += can_start(b, section) ? 1U : 0U;
    return count;
  }

  std::vector<std::size_t> candidates_of(std::size_t section) const {
    std::vector<std::size_t> candidates;
    for (const std::size_t b : problem_.members[section]) {
      if (can_start(b, section)) candidates.push_back(b);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](std::size_t a, std::size_t b) { return rank_[a] > rank_[b]; });
    return candidates;
  }

  const SectionedProblem& problem_;
  PackingState state_;
  const std::int64_t max_steps_;
  Strategy strategy_ = kStrategies[0];
  std::vector<double> rank_;
  std::int64_t nodes_left_ = 0;
};

}  // namespace

SearchResult search_packing(std::span<const Interval> intervals, std::size_t capacity_bytes, std::int64_t max_steps) {
  // A buffer without bytes, or alone in its time, gets offset 0.
  std::vector<std::size_t> index;
  std::vector<Interval> buffers;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes == 0 || intervals[i].begin >= intervals[i].end) continue;
    index.push_back(i);
    buffers.push_back(intervals[i]);
  }
  const SectionedProblem problem(buffers, capacity_bytes);
  Search search(problem, max_steps);
  SearchResult result{.verdict = search.run(), .offsets = {}, .steps = search.state().work()};
  if (result.verdict == SearchVerdict::kFound) {
    result.offsets.assign(intervals.size(), 0);
    for (std::size_t b = 0; b < index.size(); ++b) {
      result.offsets[index[b]] = static_cast<std::size_t>(search.state().lowest(b)) * problem.unit_bytes;
    }
  }
  return result;
}

}  // namespace plimsoll
