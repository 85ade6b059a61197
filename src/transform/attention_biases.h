// Computes attention's biases once: layers that would each look up the same biases read the result of one
// kAttentionBias. For a backend that would otherwise compute them again for each node, if there is memory.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Tables that are not parameters of the graph's own, such as those that ranks fetch, are looked up as before. Call it
// after all transforms that copy or move nodes.
Graph keep_attention_biases(const Graph& graph);

}  // namespace plimsoll
