// Which forward values to compute again in backward, when keeping all of them costs too much memory: those that free the
// most bytes for the least time come first. (Selective recomputation; Korthikanti et al. 2022, "Reducing Activation
// Recomputation in Large Transformer Models", choose by hand what is ranked here.)
//
//   const auto ranked = rank_recomputations(graph, anchors, seconds);
//   graph = recompute(graph, recompute_policy(graph, first names of ranked));
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "transform/recompute.h"

namespace plimsoll {

// One choice: `nodes` run again in backward, from values that are there already.
struct Recomputation {
  std::vector<std::string> nodes;
  std::size_t bytes = 0;  // kept values that need not be kept any more
  double seconds = 0;     // extra, each step
};

using NodeSeconds = std::function<double(const Graph&, const Node&)>;

// `graph`: forward and backward, before any recomputation; cheap nodes (is_cheap) count as computed again. `anchors`: forward
// nodes whose outputs are always kept, so that computing again never reaches further back than to the one before. In the order
// in which a growing need for memory would take them: each best after those before it.
std::vector<Recomputation> rank_recomputations(const Graph& graph, const std::set<std::string>& anchors,
                                               const NodeSeconds& seconds);

// Bytes of forward values that backward reads and that no recomputation of `again` or is_cheap brings back.
std::size_t kept_bytes(const Graph& graph, const std::set<std::string>& again);

// is_cheap, and every output of the named nodes.
RecomputePolicy recompute_policy(std::set<std::string> again);

}  // namespace plimsoll
