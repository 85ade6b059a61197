// Fused rows: nodes that each read and write all rows become one node that reads and writes them once. Their kernels
// round once where several nodes rounded each.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Fuses a layer_norm, the add before it and the dropout before that into one layer_norm, if nothing else reads the
// values between them. For graphs that have no backward yet. `values` are values of `graph`, and become those of the
// result; they and the graph's outputs are kept.
Graph fuse_residual_norms(const Graph& graph, std::vector<ValueId>& values);

// Fuses a dropout and a cast next to it into one dropout, if nothing else reads the value between them. For the same
// graphs, with the same `values`.
Graph fuse_dropout_casts(const Graph& graph, std::vector<ValueId>& values);

// Lets linear_input_grad add what an add after it would add, if `adds` says that this pays for the node, and nothing
// else reads its result.
Graph fuse_gradient_sums(const Graph& graph, const std::function<bool(const Graph&, const Node&)>& adds);

}  // namespace plimsoll
