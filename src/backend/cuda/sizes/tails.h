// Rows of tensors behind the real ones. Kernels know how many rows are real; the host knows a bound, and cuBLASLt's
// products take that many. Products over rows may read and write anything behind the real ones, but a sum over rows
// must add nothing from there. So most kernels leave zeros in the rows up to the bound, and this says where it can be
// relied on.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace plimsoll::cuda {

enum class Tail : std::uint8_t {
  kUnknown,
  kFinite,  // numbers made of parameters
  kZero
};

// What lies in the rows of `value` behind the real ones, where it is read by a node with that row count.
Tail tail_of(const Graph& graph, ValueId value, ValueId row_count);

// Whether the rows of two operands behind the real ones add nothing to a sum over rows of their products.
bool add_nothing(Tail a, Tail b);

}  // namespace plimsoll::cuda
