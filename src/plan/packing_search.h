// search_packing: a packing inside a given capacity, or the proof that there is none, or neither within so many steps.
//
// Branch and bound over PackingState. One section is looked at: either one of its remaining buffers starts at its level
// (each that can is tried, the most promising first) or none does and the level rises. Parts of the problem that no
// remaining buffer connects are solved one after the other. Which section, and which buffer first, is a strategy; a run
// that gets stuck is cut off, and the next one starts with another strategy, shuffled a little, and with what that
// strategy has learnt about the sections where things go wrong. (The dominance and the splitting into parts are in the
// spirit of Moffitt: "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS
// 2023.)
//
//   const SearchResult result = search_packing(intervals, 1 << 20, 1'000'000'000);
//   if (result.verdict == SearchVerdict::kFound) use(result.offsets);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/packing.h"

namespace plimsoll {

enum class SearchVerdict : std::uint8_t { kFound, kImpossible, kGaveUp };

struct SearchResult {
  SearchVerdict verdict = SearchVerdict::kGaveUp;
  std::vector<std::size_t> offsets;  // bytes, one an interval, multiples of the sizes' common divisor; if found
  std::int64_t steps = 0;            // some nanoseconds each
};

// Deterministic: the same problem and limit give the same answer on every machine. The recursion is as deep as there
// are buffers: for up to some thousands.
SearchResult search_packing(std::span<const Interval> intervals, std::size_t capacity_bytes, std::int64_t max_steps);

}  // namespace plimsoll
