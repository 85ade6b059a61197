// Recompute: instead of keeping a tensor from forward to backward, computes it again just before backward needs it. The
// kernels and their inputs are the same, so the values are the same bit for bit.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace plimsoll {

// Decides which activations are recomputed, given their node and the index of the output.
using RecomputePolicy = std::function<bool(const Graph&, const Node&, std::size_t output)>;

// True for values that cost almost nothing: GELU, dropout, the affine part of a layer norm (from its kept normalized
// output), gathered rows and patches.
bool is_cheap(const Graph& graph, const Node& node, std::size_t output);

// Returns a graph with the same outputs, in which no backward node reads a chosen activation: it reads a copy that is
// computed in the backward phase, before its first use there. Values keep their names (copies end in ".again").
Graph recompute(const Graph& graph, const RecomputePolicy& policy);

}  // namespace plimsoll
