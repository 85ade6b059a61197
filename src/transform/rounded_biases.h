// Rounded biases: maps in halves read biases of their rows' type, which one cast at the graph's beginning makes of the
// parameters. For a backend that would otherwise round each bias before each product.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Biases that are not parameters of the graph's own, such as those that ranks fetch, stay as they are.
Graph round_biases(const Graph& graph);

}  // namespace plimsoll
