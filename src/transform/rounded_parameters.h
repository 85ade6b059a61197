// Rounds parameters once: linear maps in halves read biases, and adapters' weights, in the type of their rows; one cast
// at the graph's beginning makes them from the parameters. For a backend that would otherwise round each of them before
// each product.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Parameters that are not the graph's own, such as those that ranks fetch, are not rounded, nor are weights whose
// rounded copy would take much memory.
Graph round_parameters(const Graph& graph);

}  // namespace plimsoll
