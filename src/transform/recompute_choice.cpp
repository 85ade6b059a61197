#include "transform/recompute_choice.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace plimsoll {
namespace {

// The values that backward needs from forward: kept, or recomputed from those that are kept.
class Needs {
 public:
  Needs(const Graph& graph, const std::set<std::string>& again)
      : graph_(graph), again_(graph.nodes().size(), false), needed_(graph.values().size(), false) {
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) again_[n] = again.contains(graph.nodes()[n].name);
    for (const Node& node : graph.nodes()) {
      if (node.phase != Phase::kBackward) continue;
      for (const ValueId input : node.inputs) need(input);
    }
  }

  // True for activations that are needed and not recomputed.
  bool keeps(ValueId value) const { return needed_[index(value)] && is_forward(value) && !is_again(value); }
  std::size_t kept_bytes(const Node& node) const {
    std::size_t bytes = 0;
    for (const ValueId output : node.outputs) bytes += keeps(output) ? graph_.type(output).bytes() : 0;
    return bytes;
  }
  std::size_t kept_bytes() const {
    std::size_t bytes = 0;
    for (const Node& node : graph_.nodes()) bytes += node.phase == Phase::kForward ? kept_bytes(node) : 0;
    return bytes;
  }

  // Returns the nodes that must also run again so that this one can, back to values that are needed anyway.
  std::vector<NodeId> chain(NodeId node) const {
    std::vector<NodeId> nodes = {node};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const ValueId input : graph_.node(nodes[i]).inputs) {
        if (needed_[index(input)] || !is_forward(input)) continue;
        const NodeId producer = graph_.value(input).producer;
        if (std::find(nodes.begin(), nodes.end(), producer) == nodes.end()) nodes.push_back(producer);
      }
    }
    return nodes;
  }
  void run_again(const std::vector<NodeId>& nodes) {
    for (const NodeId n : nodes) again_[static_cast<std::size_t>(n)] = true;
    for (const NodeId n : nodes) {
      for (const ValueId output : graph_.node(n).outputs) needed_[index(output)] = true;
    }
  }

 private:
  static std::size_t index(ValueId value) { return static_cast<std::size_t>(value); }
  bool is_forward(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer != kNoNode && graph_.node(producer).phase == Phase::kForward;
  }
  bool is_again(ValueId value) const {
    const Value& v = graph_.value(value);
    return again_[static_cast<std::size_t>(v.producer)] ||
           is_cheap(graph_, graph_.node(v.producer), static_cast<std::size_t>(v.output_index));
  }

  void need(ValueId value) {
    if (needed_[index(value)]) return;
    needed_[index(value)] = true;
    if (!is_forward(value) || !is_again(value)) return;
    const Node& node = graph_.node(graph_.value(value).producer);
    if (node.op == Op::kLayerNorm && !again_[static_cast<std::size_t>(graph_.value(value).producer)]) {
      need(node.outputs[1]);  // the affine part reads the normalized output
      return;
    }
    for (const ValueId input : node.inputs) need(input);
  }

  const Graph& graph_;
  std::vector<bool> again_;   // by node
  std::vector<bool> needed_;  // by value
};

bool may_run_again(const Node& node, const std::set<std::string>& anchors) {
  return node.phase == Phase::kForward && !is_loss(node.op) && !anchors.contains(node.name);
}

}  // namespace

std::vector<Recomputation> rank_recomputations(const Graph& graph, const std::set<std::string>& anchors,
                                               const NodeSeconds& seconds) {
  Needs needs(graph, {});
  std::vector<NodeId> candidates;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (may_run_again(graph.nodes()[n], anchors)) candidates.push_back(static_cast<NodeId>(n));
  }
  std::vector<Recomputation> ranked;
  for (;;) {
    std::vector<NodeId> best;
    Recomputation best_choice;
    for (const NodeId candidate : candidates) {
      const std::size_t bytes = needs.kept_bytes(graph.node(candidate));
      if (bytes == 0) continue;
      std::vector<NodeId> nodes = needs.chain(candidate);
      const bool allowed =
          std::all_of(nodes.begin(), nodes.end(), [&](NodeId n) { return may_run_again(graph.node(n), anchors); });
      if (!allowed) continue;
      double time = 0;
      for (const NodeId n : nodes) time += seconds(graph, graph.node(n));
      const bool better = best.empty() || static_cast<double>(bytes) * best_choice.seconds >
                                              static_cast<double>(best_choice.bytes) * time;
      if (!better) continue;
      best = std::move(nodes);
      best_choice = {.nodes = {}, .bytes = bytes, .seconds = time};
    }
    if (best.empty()) return ranked;
    needs.run_again(best);
    for (const NodeId n : best) best_choice.nodes.push_back(graph.node(n).name);
    ranked.push_back(std::move(best_choice));
  }
}

std::size_t kept_bytes(const Graph& graph, const std::set<std::string>& again) {
  return Needs(graph, again).kept_bytes();
}

RecomputePolicy recompute_policy(std::set<std::string> again) {
  return [again = std::make_shared<const std::set<std::string>>(std::move(again))](const Graph& graph, const Node& node,
                                                                                   std::size_t output) {
    return is_cheap(graph, node, output) || again->contains(node.name);
  };
}

}  // namespace plimsoll
