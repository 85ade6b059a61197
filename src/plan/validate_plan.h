// validate_plan: simulates a step on a memory that holds owners instead of bytes, and so finds any plan in which a node
// would read bytes that another node has overwritten.
//
//   node 3 add  writes [0, 64)  -> the bytes 0..63 belong to add's output
//   node 4 gelu reads  [0, 64)  -> they must still belong to it
//
// It does not use lifetimes or the choice of aliases: an output may lie on an input only where the op catalogue allows
// it and at the same offset, and a node that reads the input later finds the output's name on its bytes.
#pragma once

#include <span>

#include "plan/memory_plan.h"

namespace plimsoll {

// Throws InternalError naming node and values if: something is not aligned or leaves its part of the arena; a node
// reads, as an input or as its row count, bytes that no longer belong to that value; a node's outputs and scratch
// overlap each other or its inputs other than by an alias; a node touches the bytes of a forked node that has not
// joined yet; a parameter, state or graph output is not complete at the end.
void validate_plan(const Graph& graph, const MemoryPlan& plan, std::span<const std::size_t> scratch_bytes);

}  // namespace plimsoll
