// The rows of tensors after the real ones. Kernels know how many rows are real; the host knows only a bound, and
// cuBLASLt's products take that many. Products over rows may read and write anything after the real rows, but a sum
// over rows must add nothing from there. So most kernels write zeros to the rows up to the bound, and this says where
// one can rely on it.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace plimsoll::cuda {

enum class Tail : std::uint8_t {
  kUnknown,
  kFinite,  // numbers computed from parameters
  kZero
};

// Returns what the rows of `value` after the real ones hold when a node with that row count reads them.
Tail tail_of(const Graph& graph, ValueId value, ValueId row_count);

// True if the rows after the real ones of two operands add nothing to a sum over rows of their products.
bool add_nothing(Tail a, Tail b);

}  // namespace plimsoll::cuda
