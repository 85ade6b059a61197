// Products of integers: if a weight is coded in 8 or 4 bits, rows are rounded to 8 bits too, because processors
// multiply bytes several times as fast as floats.
//
//   graph = multiply_in_int8(graph);  // linear -> linear_int8, where the weight is Q8 or NF4
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Returns the graph with every `linear` of a coded weight replaced by `linear_int8`. The graph must have no backward,
// because these products have no gradient.
Graph multiply_in_int8(const Graph& graph);

}  // namespace plimsoll
