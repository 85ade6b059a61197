// Who reads a graph's values.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Returns the nodes that read each value, in order.
inline std::vector<std::vector<NodeId>> readers_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.values().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const ValueId input : graph.nodes()[n].inputs) {
      auto& list = readers[static_cast<std::size_t>(input)];
      if (list.empty() || list.back() != static_cast<NodeId>(n)) list.push_back(static_cast<NodeId>(n));
    }
  }
  return readers;
}

// Returns whether the host reads the value after the step.
inline bool is_output(const Graph& graph, ValueId value) {
  return std::ranges::find(graph.outputs(), value) != graph.outputs().end();
}

}  // namespace plimsoll
