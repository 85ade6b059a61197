// Runs a node whose tensors are halves or coded weights with a kernel that only supports F32: inputs are widened into
// scratch, outputs rounded when they are stored. This defines what a half means everywhere (values are stored in it,
// arithmetic is in F32), so it is the reference for kernels that read and write halves themselves.
//
//   if (needs_widening(graph, node)) return widened_kernel(graph, node, make_f32_kernel);
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"

namespace plimsoll {

// True if an input or output is BF16, F16, Q8 or NF4.
bool needs_widening(const Graph& graph, const Node& node);

using PrepareKernel = std::function<std::unique_ptr<Kernel>(const Graph&, const Node&)>;

// `prepare` is called once, with a node of the same op whose tensors are F32.
std::unique_ptr<Kernel> widened_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare);

}  // namespace plimsoll
