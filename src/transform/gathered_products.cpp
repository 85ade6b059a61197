#include "transform/gathered_products.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "graph/product_batches.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

// A product moves up over so many other products at most: what is made early takes memory until it is read. Only
// products are counted, since nodes that exchange between ranks differ from rank to rank, but all must move the same.
constexpr std::size_t kMostPassed = 20;

// True if b may move up to a. What is recomputed in backward is wanted where it stands, so there a map moves up only to
// another of the same rows: else it would be that of another layer, whose rows exist early.
bool may_join(const Graph& graph, const Node& a, const Node& b) {
  const bool again = b.phase == Phase::kBackward && (b.op == Op::kLinear || b.op == Op::kLinearAdd);
  return can_batch(graph, a, b) && (!again || a.inputs[0] == b.inputs[0]);
}

}  // namespace

Graph gather_products(const Graph& graph) {
  const std::deque<Node>& nodes = graph.nodes();
  // By the place of the node in front: it, and those that move up behind it.
  std::vector<std::vector<std::size_t>> places(nodes.size());
  std::vector<std::size_t> place_of(nodes.size());
  std::deque<std::size_t> products;  // the last ones
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    place_of[n] = n;
    if (is_product(node.op)) {
      products.push_back(n);
      if (products.size() > kMostPassed + 1) products.pop_front();
      std::size_t first = products.front();  // it may move to this place, not before
      const auto follow = [&](ValueId value) {
        const NodeId producer = value == kNoValue ? kNoNode : graph.value(value).producer;
        if (producer != kNoNode) first = std::max(first, place_of[static_cast<std::size_t>(producer)] + 1);
      };
      std::ranges::for_each(node.inputs, follow);
      follow(node.row_count);
      const auto fits = [&](std::size_t place) {
        const std::vector<std::size_t>& there = places[place];
        return !there.empty() && there.size() < kMostBatched &&
               std::ranges::all_of(there, [&](std::size_t other) { return may_join(graph, nodes[other], node); });
      };
      while (first < n && !fits(first)) ++first;
      place_of[n] = first;
    }
    places[place_of[n]].push_back(n);
  }
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  for (const std::vector<std::size_t>& there : places) {
    for (const std::size_t n : there) rewriter.copy_node(nodes[n]);
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
