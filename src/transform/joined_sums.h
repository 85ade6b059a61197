// Neighbouring sums of squares become one node, which a GPU computes with a few kernel launches instead of two hundred.
// The sums are the same bits.
//
//   graph = join_sums(graph);   // after whatever moves nodes
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Joins neighbouring nodes of Op::kSumSquares, except those that count rows.
Graph join_sums(const Graph& graph);

}  // namespace plimsoll
