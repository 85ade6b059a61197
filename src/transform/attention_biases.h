// Attention's biases, kept: layers that would each look the same biases up read what one kAttentionBias has made of
// their tables. For a backend that would otherwise make them for each node again, where there is memory.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Tables that are not parameters of the graph's own, such as those that ranks fetch, are looked up as before. After
// whatever copies or moves nodes.
Graph keep_attention_biases(const Graph& graph);

}  // namespace plimsoll
