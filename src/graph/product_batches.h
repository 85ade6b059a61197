// Which products of a graph a device may compute at once, as a strided batch: the projections to queries, keys and
// values, say, and the gradients of their weights. One of them alone does not fill a GPU if it has few rows or columns.
//
//   const std::size_t count = batched_products(graph, n);   // nodes n to n + count - 1 may run as one
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace plimsoll {

// The most products of a batch.
inline constexpr std::size_t kMostBatched = 8;

// True for linear, linear_add and the two gradients of linear.
bool is_product(Op op);

// True if both nodes are products of the same op, with inputs and outputs of the same types, the same rows and phase,
// and neither reads what the other makes.
bool can_batch(const Graph& graph, const Node& a, const Node& b);

// Returns how many nodes from this one on, itself included, may be computed as one batch: at most kMostBatched, and 1
// for a node that is not a product.
std::size_t batched_products(const Graph& graph, std::size_t first);

}  // namespace plimsoll
