// Sums over rows, which are the gradients of biases and of the vectors of norms, are left in parts by the nodes that
// make them, and one node adds up the parts of many (graph/partial_sums.h): a GPU would otherwise start a kernel for
// each node to do so. The sums are the same bits. Their parts live until the first of the sums is read.
//
//   graph = add_sums_late(graph, parts);   // after whatever moves nodes
#pragma once

#include <cstdint>
#include <functional>

#include "graph/graph.h"

namespace plimsoll {

// Backend::parts_of_sums
using PartialSumsOf = std::function<std::int64_t(const Graph&, const Node&)>;

// Nodes whose sums are read before another node has made its own keep them whole.
Graph add_sums_late(const Graph& graph, const PartialSumsOf& parts);

}  // namespace plimsoll
