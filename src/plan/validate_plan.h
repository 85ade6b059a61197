// validate_plan: plays a step through on a memory of owners instead of bytes, and so finds any plan that would let a
// node read what another one has overwritten.
//
//   node 3 add  writes [0, 64)  -> the bytes 0..63 belong to add's output
//   node 4 gelu reads  [0, 64)  -> they must still belong to it
//
// It knows nothing of lifetimes or of how aliases were chosen: an output may lie on an input only where the op
// catalogue allows it and at the same offset, and whoever reads the input later finds the output's name on its bytes.
#pragma once

#include <span>

#include "plan/memory_plan.h"

namespace plimsoll {

// Throws InternalError naming node and values if: anything is not aligned or leaves its part of the arena; a node
// reads, as an input or as its row count, bytes that are not that value's any more; a node's outputs and scratch meet
// each other or its inputs other than by an alias; a parameter or state is not whole at the end, or an output of the
// graph.
void validate_plan(const Graph& graph, const MemoryPlan& plan, std::span<const std::size_t> scratch_bytes);

}  // namespace plimsoll
