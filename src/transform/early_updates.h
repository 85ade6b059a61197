// Consumes gradients in backward: a parameter is updated as soon as its gradient is complete, so that gradients live
// only briefly instead of waiting for the end of backward. (LOMO: Lv et al. 2023, "Full Parameter Fine-tuning for Large
// Language Models with Limited Resources"; the update is the optimizer's own, bit for bit.)
//
// Clipping by the global norm prevents this, because the norm is known only after the last gradient. With clipping,
// backward therefore runs twice: the first pass only measures the norm, the second one updates.
//
//   graph = update_early(graph);                        // no clipping
//   graph = update_early(repeat_backward(graph));       // with clipping
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Keeps the nodes, but runs those of Phase::kUpdate as early as possible: once their inputs exist, and every node that
// reads the bytes they overwrite has run. The other nodes keep their order.
Graph update_early(const Graph& graph);

// Runs backward again, before the first node of Phase::kUpdate that reads a gradient and depends on the gradient norm:
// the norm's sums of squares read the first pass's gradients, those nodes the second's. Both passes compute the same
// bits. Throws InternalError for a graph whose backward changes a state (accumulated gradients cannot be summed twice).
Graph repeat_backward(const Graph& graph);

}  // namespace plimsoll
