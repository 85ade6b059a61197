// Products that a device may compute as one batch (graph/product_batches.h) are brought next to each other: backward
// makes the gradient of one map's weight and that of its input in turn. The values are the same bits.
//
//   graph = gather_products(graph);   // before neighbouring sums are joined
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Moves each product up, behind the first of those before it with which it can be computed, if all that it reads exists
// there. What it makes lives longer by that.
Graph gather_products(const Graph& graph);

}  // namespace plimsoll
