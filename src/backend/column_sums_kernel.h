// Runs a node that also computes column sums (graph/column_sums.h) by a kernel that computes the rest and then by
// bias_grad kernels that read its outputs, for backends that have no kernel for both.
#pragma once

#include "backend/widened_kernel.h"

namespace plimsoll {

// `prepare` is called with nodes of a graph that lives no longer than this call: the same node without sums, and a
// bias_grad for each sum.
std::unique_ptr<Kernel> column_sums_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare);

}  // namespace plimsoll
