// Says which outputs of a node are the sums over the rows of other outputs: the node of a gradient may also compute the
// gradient of the bias that was added to its input, which saves reading its own output again (autodiff/rules.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct ColumnSums {
  std::size_t of, sums;  // outputs
};

// Returns those of kGeluGrad, kLayerNormGrad and kAttentionGrad, were they not in parts (graph/partial_sums.h); nothing
// for other ops.
std::vector<ColumnSums> column_sums(const Node& node);

// Returns the attributes of a node of those ops, with the sums or without.
Attributes with_column_sums(const Node& node, bool sums);

}  // namespace plimsoll
