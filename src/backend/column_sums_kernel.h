// Runs a node that also makes column sums (graph/column_sums.h) with a kernel that makes the rest, and then kernels of
// bias_grad that read its outputs: for backends that have no kernel for both.
#pragma once

#include "backend/widened_kernel.h"

namespace plimsoll {

// `prepare` is called with nodes of a graph that lives no longer than this call: the same node without sums, and for
// each sum a bias_grad.
std::unique_ptr<Kernel> column_sums_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare);

}  // namespace plimsoll
