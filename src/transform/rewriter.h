// Rewriter: copies a graph node by node into a new one, and lets a transform change any of them.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), map_(from.values().size(), kNoValue) {}

  Graph& graph() { return to_; }
  // Copies inputs, parameters and states under their names.
  void copy_sources();
  // Copies all but those that `skips` selects.
  void copy_sources(const std::function<bool(ValueId)>& skips);
  // Copies the node with its inputs mapped, or with the given inputs of the new graph; maps the old outputs to the new.
  void copy_node(const Node& node);
  void copy_node(const Node& node, std::vector<ValueId> inputs);
  void copy_outputs();

  ValueId mapped(ValueId old) const;
  void map(ValueId old, ValueId now) { map_[static_cast<std::size_t>(old)] = now; }
  Graph take() { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
};

}  // namespace plimsoll
