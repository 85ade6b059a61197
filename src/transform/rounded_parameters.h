// Rounded parameters: maps in halves read biases, and weights of adapters, of their rows' type, which one cast at the
// graph's beginning makes of the parameters. For a backend that would otherwise round each before each product.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Parameters that are not the graph's own, such as those that ranks fetch, stay as they are; so do weights of which a
// rounded copy would take memory.
Graph round_parameters(const Graph& graph);

}  // namespace plimsoll
