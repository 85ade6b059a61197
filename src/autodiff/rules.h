// The walk to which gradient rules write, and the table of rules.
#pragma once

#include <span>
#include <vector>

#include "autodiff/autodiff.h"

namespace plimsoll {

class BackwardWalk {
 public:
  BackwardWalk(Graph& graph, std::span<const ValueId> wanted);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  // True if some wanted value depends on `value`.
  bool needs(ValueId value) const;
  // Returns the gradient collected so far, kNoValue if there is none yet.
  ValueId gradient_of(ValueId value) const;
  const Gradient& gradient(ValueId value) const { return gradients_[static_cast<std::size_t>(value)]; }
  // Adds `gradient` to the value's gradient; does nothing if no wanted value depends on it. A sum has the row count of
  // the value's node, or, if the value is a source, `rows`.
  void contribute(ValueId value, ValueId gradient, ValueId rows);
  void contribute_rows(ValueId value, Gradient gradient);
  // Says that `gradient` has been added to the value's gradient so far, and has taken its bytes.
  void grow(ValueId value, ValueId gradient) { gradients_[static_cast<std::size_t>(value)].dense = gradient; }
  // Returns the bias that was added to this value if its gradient is wanted and is the column sums of the value's: a
  // linear map with this row count made the value, and only one node reads it. Else returns kNoValue.
  ValueId bias_behind(ValueId value, ValueId rows) const;
  // Says that the column sums of the value's gradient are its bias's gradient; the map's own rule then leaves it out.
  void contribute_bias(ValueId value, ValueId sums);
  bool has_bias_gradient(ValueId value) const { return bias_done_[static_cast<std::size_t>(value)]; }
  // Appends a backward node named "<forward>.<op>" with the forward node's row count.
  std::vector<ValueId> append(const Node& forward, Op op, std::vector<ValueId> inputs, Attributes attributes = {});

 private:
  Graph& graph_;
  std::vector<bool> needed_, bias_done_;
  std::vector<int> readers_;
  std::vector<Gradient> gradients_;
};

// Says whether an op's output counts as a constant, though it is computed from values that have a gradient.
bool is_constant(Op op);

// Appends the gradients of `node`'s inputs, given those of its outputs.
void apply_rule(BackwardWalk& walk, const Node& node);

}  // namespace plimsoll
