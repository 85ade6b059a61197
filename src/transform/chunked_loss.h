// Chunked loss: the logits over a whole vocabulary never exist at once. The head's product, the cross-entropy and both
// their gradients run for some rows at a time, and the logits of one chunk reuse the bytes of the previous one's (Hsu
// et al. 2024, Liger Kernel; Wijmans et al. 2024, "Cut Your Losses").
//
//   graph = chunk_loss(graph);     // after autodiff
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace plimsoll {

// A chunk has at least this many rows of F32, or twice as many of halves: with fewer, products are slow on a CPU.
inline constexpr std::int64_t kFewestLossRows = 64;

// Returns how many of n rows of width D are in a chunk: its logits [rows, V] of `dtype` take about as many bytes as all
// n rows, but a chunk has at least `fewest` rows, or twice as many of halves. Returns n if logits are not several times
// as wide as the rows.
std::int64_t chunk_rows(std::int64_t n, std::int64_t width, std::int64_t classes, DType dtype,
                        std::int64_t fewest = kFewestLossRows);

// Cuts into chunks of rows every loss that is a cross_entropy of a product without bias, if chunks have fewer rows than
// the whole and only label_scores and softmax_sums also read the logits. Losses are summed chunk by chunk, and so are
// the weight's gradients; other results are the same bits.
Graph chunk_loss(const Graph& graph, std::int64_t fewest_rows = kFewestLossRows);

}  // namespace plimsoll
