// place_buffers: packings made by placing one buffer after the other, each where it is free. Quick; for the graphs of
// training steps nearly always as small as any packing can be, because the peak is packed first.
//
//   const Packing packing = place_buffers(intervals, lower_bound_bytes(intervals));
//   if (packing.bytes > lower_bound) search_packing(…);
#pragma once

#include <cstddef>
#include <span>

#include "plan/packing.h"

namespace plimsoll {

// The first packing that is no larger than `goal`, or the smallest of those tried. Deterministic; effort grows with the
// square of the number of buffers up to some tenths of a second, and is then the same for larger problems.
Packing place_buffers(std::span<const Interval> intervals, std::size_t goal);

}  // namespace plimsoll
