// A node in a graph of its own, for kernels that run it by another kernel.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Returns a copy of the node for `to`, which gets sources for its inputs and its row count; the copy has no outputs
// yet.
Node lone_node(const Graph& from, const Node& node, Graph& to);

}  // namespace plimsoll
