// Head parts: a vocabulary's head is updated part by part, so that the gradient of its weight, the largest tensor of a
// small language model's step, never exists as a whole. After backward, the logits of some classes at a time are
// computed once more; from each row's largest logit and sum of exponentials, which forward keeps, follow the same
// gradients as those of the whole, for the logits and for the weight. A table that is tied to the head gets its
// look-ups' gradient there, too.
//
//   graph = update_head_in_parts(graph);     // after append_optimizer with early updates, before chunk_loss
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "transform/chunked_loss.h"

namespace plimsoll {

// A head is usually updated in this many parts.
inline constexpr std::int64_t kHeadParts = 16;

// Cuts every AdamW update of a parameter whose gradient comes from a cross_entropy of its product into about `parts`
// parts, if it need not wait for the norm of all gradients. Each part begins with a block of moments. Rows are summed
// in chunk_loss's chunks of at least `fewest_rows`, in the same order. A graph without such an update is returned
// unchanged.
Graph update_head_in_parts(const Graph& graph, std::int64_t parts = kHeadParts,
                           std::int64_t fewest_rows = kFewestLossRows);

}  // namespace plimsoll
