// Which outputs of a node are the sums over the rows of other outputs: a gradient's node may make the gradient of the
// bias that was added to what it differentiates, and so save reading its own output again (autodiff/rules.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct ColumnSums {
  std::size_t of, sums;  // outputs
};

// Of kGeluGrad, kLayerNormGrad and kAttentionGrad; of other ops nothing.
std::vector<ColumnSums> column_sums(const Node& node);

// Returns the node's attributes, of those ops, with the sums or without.
Attributes with_column_sums(const Node& node, bool sums);

}  // namespace plimsoll
