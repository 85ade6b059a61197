// The GPU memory that a node's kernel and a run's arena need besides tensors. Computing it needs neither a GPU nor
// CUDA; kernels are made with the same numbers.
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace plimsoll::cuda {

// Returns the scratch_bytes() of the node's kernel. Throws as making the kernel does if no GPU can run the node.
std::size_t kernel_scratch_bytes(const Graph& graph, const Node& node);

// Returns the size of each of the two buffers for copies, one on the device and one on the host, that come with an
// arena of that size.
std::size_t copy_ring_bytes(std::size_t arena_bytes);

}  // namespace plimsoll::cuda
