// Ranges in a profile: with a profiler attached (nsys sets NVTX_INJECTION64_PATH), what a node's kernel starts stands
// in a range by the op's and the node's name, so that the profile reads like the graph. Without one, kernels are as
// before.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace plimsoll::cuda {

// True if a profiler asks for ranges, and this program was built with NVTX.
bool names_ranges();

std::unique_ptr<Kernel> named_kernel(const Node& node, std::unique_ptr<Kernel> kernel);

}  // namespace plimsoll::cuda
