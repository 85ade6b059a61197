// Sums over rows in parts (graph/partial_sums.h) for backends that compute on the host, where parts save nothing: the
// first one is the whole sum.
#pragma once

#include "backend/widened_kernel.h"

namespace plimsoll {

// Runs a node that leaves its sums in parts. `prepare` is called once, with the same node of a graph that lives no
// longer than this call, its sums whole.
std::unique_ptr<Kernel> partial_sums_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare);

std::unique_ptr<Kernel> make_add_partial_sums_kernel(const Node& node);

}  // namespace plimsoll
