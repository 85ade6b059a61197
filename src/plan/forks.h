// Forks: nodes of a graph that a device may run concurrently with those that follow, since nothing needs their results
// soon. A product of few rows, or one that does not divide evenly among a GPU's multiprocessors, leaves some of them
// idle; a kernel launched at the same time fills them.
//
// A forked node begins in its turn and must have ended before another node, its join. Until then its inputs, outputs
// and scratch keep their bytes: plan_memory sees to that, and validate_plan checks it. Results do not depend on it.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Returns for each node that forks its join (the number of nodes: it ends last), and kNoNode for one that runs in its
// turn. Linear layers and gradients of their weights fork, `at_once` at a time, where the next node neither reads what
// they write nor writes what they read. The more run at once, the longer their operands live.
std::vector<NodeId> find_joins(const Graph& graph, std::size_t at_once);

}  // namespace plimsoll
