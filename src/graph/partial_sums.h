// Sums over rows that a kernel leaves in parts. The gradients of biases and of the vectors of norms are such sums; a
// GPU's blocks of rows each have a part of them, and adding up the parts takes another launch. A node may make its
// parts its output instead, P of each sum, so that one kAddPartialSums adds up those of many nodes
// (transform/partial_sums.h). Which rows a part is the sum of is the backend's affair; together they are all rows.
//
//   const std::optional<SummedOutputs> of = summed_outputs(node);   // outputs of->first to the last, w[D] each
//   node.attributes = with_partial_sums(node, 64);   // of->first is then the last, w[64, of->count D]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace plimsoll {

struct SummedOutputs {
  std::size_t first = 0;  // output
  std::int64_t count = 0;
};

// Returns which last outputs of a node are sums over rows, were they not in parts: those of kBiasGrad, kLayerNormGrad
// and kRmsNormGrad, and of kGeluGrad and kAttentionGrad with column sums. Nothing for other nodes.
std::optional<SummedOutputs> summed_outputs(const Node& node);

// Returns P of a node that leaves its sums in parts; 0 for any other.
std::int64_t partial_sums(const Node& node);

// Returns the attributes of a node that has summed_outputs, with its sums in `count` parts; 0: whole.
Attributes with_partial_sums(const Node& node, std::int64_t count);

}  // namespace plimsoll
