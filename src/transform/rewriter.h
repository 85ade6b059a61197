// Rewriter: copies a graph node by node into a new one, letting a transform step in where it wants to.
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
  // Inputs, parameters and states, under their names.
  void copy_sources();
  // But those that `skips` names.
  void copy_sources(const std::function<bool(const Value&)>& skips);
  // The node with its inputs mapped, or with the given inputs of the new graph; its outputs become the old ones' images.
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
