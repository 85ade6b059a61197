// Chunked loss: logits over a vocabulary are never whole. The head's product, the cross-entropy and both their
// gradients run for some rows at a time, and the logits of one chunk take the bytes of the last (Hsu et al. 2024, Liger
// Kernel; Wijmans et al. 2024, "Cut Your Losses").
//
//   graph = chunk_loss(graph);     // after autodiff
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace plimsoll {

// A chunk has at least so many rows of F32, or twice as many of halves: with fewer, products are slow on a CPU.
inline constexpr std::int64_t kFewestLossRows = 64;

// How many of n rows of width D are in a chunk, whose logits [rows, V] of `dtype` then take about as many bytes as all
// rows do; at least `fewest`, though, or twice as many of halves. All, where logits are not several times as wide as
// the rows.
std::int64_t chunk_rows(std::int64_t n, std::int64_t width, std::int64_t classes, DType dtype,
                        std::int64_t fewest = kFewestLossRows);

// Cuts every loss by rows that is a cross_entropy of a product without bias, where chunks have fewer rows and nobody
// else reads the logits but label_scores and softmax_sums. Losses are summed chunk by chunk, gradients of the weight
// likewise; other results are the same bits.
Graph chunk_loss(const Graph& graph, std::int64_t fewest_rows = kFewestLossRows);

}  // namespace plimsoll
