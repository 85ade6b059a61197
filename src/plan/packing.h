// Packing: offsets for buffers whose lifetimes are known, so that buffers alive at the same time never overlap and the
// whole is as small as the search finds. (Dynamic storage allocation: NP-hard; the lower bound says how far off we are.)
//
//      offset                         lower_bound = the largest sum of bytes alive at one time
//        |   +---- C ----+            pack         finds offsets within a gap of it, usually zero
//        |   | A |   B   |            validate     knows nothing of how they were found
//        +-----------------> time
//
// Deterministic: the same problem gives the same answer on every machine; effort is bounded by steps, never by a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// Alive in [begin, end) of logical time.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t bytes = 0;
};

struct Packing {
  std::vector<std::size_t> offsets;  // one an interval
  std::size_t bytes = 0;             // largest offset + bytes
};

std::size_t lower_bound_bytes(std::span<const Interval> intervals);
// All `bytes` are multiples of `alignment_bytes`, and so are the offsets.
Packing pack(std::span<const Interval> intervals, std::size_t alignment_bytes);
// Throws InternalError naming the two buffers if any two alive together overlap, or one reaches beyond `packing.bytes`.
void validate(std::span<const Interval> intervals, const Packing& packing, std::size_t alignment_bytes);

}  // namespace plimsoll
