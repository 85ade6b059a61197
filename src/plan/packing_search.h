// search_packing: finds a packing inside a given capacity, or proves that there is none, or stops after a given number
// of steps.
//
// Branch and bound over PackingState. In a chosen section, either one of the remaining buffers starts at its level
// (each that can is tried, the most promising first) or none does and the level rises. Parts of the problem that no
// remaining buffer connects are solved separately. A strategy chooses the section and the first buffer; a run that
// gets stuck is cut off, and the next one starts with another strategy, shuffled a little, and with what that
// strategy has learnt about where packings fail. (The dominance and the splitting into parts follow the ideas of
// Moffitt: "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023.)
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
  std::vector<std::size_t> offsets;  // if found: bytes, one for each interval, multiples of the sizes' common divisor
  std::int64_t steps = 0;            // some nanoseconds each
};

// It is deterministic: the same problem and limit give the same result on every machine. The recursion is as deep as
// the number of buffers, so it is meant for up to a few thousand.
SearchResult search_packing(std::span<const Interval> intervals, std::size_t capacity_bytes, std::int64_t max_steps);

}  // namespace plimsoll
