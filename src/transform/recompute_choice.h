// Chooses which activations to recompute in backward when keeping all of them takes too much memory: those that free
// the most bytes for the least time come first. (Selective recomputation; Korthikanti et al. 2022, "Reducing Activation
// Recomputation in Large Transformer Models", choose by hand; this ranks.)
//
//   const auto ranked = rank_recomputations(graph, anchors, seconds);
//   graph = recompute(graph, recompute_policy({ranked[0].nodes.begin(), ranked[0].nodes.end()}));
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "transform/recompute.h"

namespace plimsoll {

// One choice: `nodes` run again in backward, from values that exist already.
struct Recomputation {
  std::vector<std::string> nodes;
  std::size_t bytes = 0;  // bytes of values that no longer need to be kept
  double seconds = 0;     // added to each step
};

using NodeSeconds = std::function<double(const Graph&, const Node&)>;

// `graph` has forward and backward, before any recomputation; cheap nodes (is_cheap) count as recomputed. `anchors` are
// forward nodes whose outputs are always kept, so recomputation never reaches beyond the previous one. The result is in
// the order in which they are chosen as the need for memory grows: each is the best after those before it.
std::vector<Recomputation> rank_recomputations(const Graph& graph, const std::set<std::string>& anchors,
                                               const NodeSeconds& seconds);

// The bytes of activations that backward reads and that neither `again` nor is_cheap recomputes.
std::size_t kept_bytes(const Graph& graph, const std::set<std::string>& again);

// Recomputes what is_cheap accepts, and every output of the named nodes.
RecomputePolicy recompute_policy(std::set<std::string> again);

}  // namespace plimsoll
