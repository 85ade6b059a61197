// Fused rows: nodes that each read and write all rows become one node that reads and writes them once. Their kernels
// round once where several nodes rounded each.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Makes one layer_norm of a layer_norm, the add before it and the dropout before that, where nothing else reads what
// lies between them. For graphs that have no backward yet. `values` are values of `graph`, and become those of the
// result; they and the graph's outputs stay.
Graph fuse_residual_norms(const Graph& graph, std::vector<ValueId>& values);

// Makes one dropout of a dropout and a cast beside it, where nothing else reads what lies between them. For the same
// graphs, with the same `values`.
Graph fuse_dropout_casts(const Graph& graph, std::vector<ValueId>& values);

// Lets linear_input_grad add what an add after it would add, where `adds` says that this pays for the node and nothing
// else reads its result.
Graph fuse_gradient_sums(const Graph& graph, const std::function<bool(const Graph&, const Node&)>& adds);

}  // namespace plimsoll
