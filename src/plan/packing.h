// Packing: finds offsets for buffers whose lifetimes are known, so that buffers alive at the same time never overlap
// and the total is as small as the search can make it. (Dynamic storage allocation is NP-hard; the lower bound says how
// far off the result is.)
//
// The picture shows a small step: activations A, B, C wait for backward, gradients c, b, a made there wait for the
// update; s is scratch.
//
//   offset                                   lower_bound  the largest sum of bytes alive at one time, here 4:
//   4             +---+---------------+                   no packing is smaller
//                 | s | c             |      pack         places buffer after buffer, the peak's first, each as low
//   3         +---+---+---+-----------+                   as it is free, or what dies late as high
//             | C         | b         |                   (plan/placing.h); if that misses the bound, it searches
//   2     +---+-----------+---+-------+                   (plan/packing_search.h)
//         | B                 | a     |      validate     knows nothing of how the offsets were found
//   1 +---+-------------------+---+---+
//     | A                         |
//   0 +---------------------------+------> time
//
// It is deterministic: the same problem gives the same result on every machine; effort is limited by steps, not time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// A buffer that is alive in [begin, end) of logical time.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t bytes = 0;
};

struct Packing {
  std::vector<std::size_t> offsets;  // one for each interval
  std::size_t bytes = 0;             // the largest offset + bytes
  // Proven smallest: it reaches its bound, or an exhaustive search found nothing smaller.
  bool is_smallest = false;
};

struct PackOptions {
  std::size_t capacity_bytes = 0;  // stop at this size; 0: stop at or close to the lower bound
  std::int64_t max_steps = 0;      // search steps, some nanoseconds each; 0: as many as pay (a second at most)
};

std::size_t lower_bound_bytes(std::span<const Interval> intervals);
// All `bytes` must be multiples of `alignment_bytes`; so are the offsets.
Packing pack(std::span<const Interval> intervals, std::size_t alignment_bytes, const PackOptions& options = {});
// Throws InternalError naming the two buffers if any two that are alive together overlap, or one that is not aligned or
// reaches beyond `packing.bytes`.
void validate(std::span<const Interval> intervals, const Packing& packing, std::size_t alignment_bytes);

}  // namespace plimsoll
