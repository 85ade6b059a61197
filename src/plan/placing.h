// place_buffers: makes packings by placing one buffer after the other, each where there is room. This is quick, and for
// graphs of training steps the result is almost always as small as possible, because the peak is packed first.
//
//   const Packing packing = place_buffers(intervals, lower_bound);   // lower_bound_bytes(intervals)
//   if (packing.bytes > lower_bound) search_packing(intervals, lower_bound, max_steps);
#pragma once

#include <cstddef>
#include <span>

#include "plan/packing.h"

namespace plimsoll {

// Returns the first packing that is no larger than `goal`, or the smallest of those tried. It is deterministic; effort
// grows with the square of the number of buffers up to some tenths of a second, and is constant for larger problems.
Packing place_buffers(std::span<const Interval> intervals, std::size_t goal);

}  // namespace plimsoll
