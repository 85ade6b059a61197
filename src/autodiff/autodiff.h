// Reverse-mode differentiation as a short walk over a table of rules, one per op. The result is ordinary nodes,
// appended to the same graph in Phase::kBackward.
//
//   const Seed seed = loss_seed(graph, loss);
//   const auto gradients = append_backward(graph, {&seed, 1}, parameters);
//   const Gradient& of_weight = gradients.at(weight);
#pragma once

#include <map>
#include <span>

#include "graph/graph.h"

namespace plimsoll {

// A gradient is a tensor of its value's shape, of its type for an activation and of the wide type (tensor/dtype.h) for
// a parameter; for an embedding with `row_gradient` it is the nonzero rows instead.
struct Gradient {
  ValueId dense = kNoValue;
  ValueId row_ids = kNoValue;    // i32[n], ascending
  ValueId row_count = kNoValue;  // i32[1]
  ValueId rows = kNoValue;       // f[n, D]
  bool by_rows() const { return rows != kNoValue; }
};

// The gradient from which the walk starts: `gradient` is d(objective)/d(value).
struct Seed {
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;
};

// Returns the seed for a cross-entropy node's loss: its logits, whose gradient the node computes itself.
Seed loss_seed(const Graph& graph, ValueId loss);

// Appends the nodes that compute the gradients of `wanted` (in reverse order of the forward nodes) and returns them; a
// wanted value that the seeds do not depend on is absent. Only the path to wanted values is differentiated. Gradients
// of a value used several times are added. Throws InternalError for an op without a rule on the path.
std::map<ValueId, Gradient> append_backward(Graph& graph, std::span<const Seed> seeds, std::span<const ValueId> wanted);

}  // namespace plimsoll
