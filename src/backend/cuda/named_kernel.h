// Ranges in a profile: with a profiler attached (nsys sets NVTX_INJECTION64_PATH), the launches of a node's kernel are
// in a range named after the op and the node, so that the profile reads like the graph. Without a profiler, kernels are
// unchanged.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace plimsoll::cuda {

// True if a profiler asks for ranges, and this program was built with NVTX.
bool names_ranges();

std::unique_ptr<Kernel> named_kernel(const Node& node, std::unique_ptr<Kernel> kernel);

}  // namespace plimsoll::cuda
