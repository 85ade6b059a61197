// The kernels of the nodes by which ranks exchange tensors (graph/op.h), the same on every backend whose tensors lie in
// the host's memory: messages go to and from the tensors themselves, through KernelArguments::ranks.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace plimsoll {

// Makes the kernel of a collective or of a slice. Sums run over ranks in their order, element by element, so that they
// do not depend on the buckets or on which rank owns what.
std::unique_ptr<Kernel> make_collective_kernel(const Node& node);
std::unique_ptr<Kernel> make_slice_kernel(const Node& node);

}  // namespace plimsoll
