#include "transform/early_updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

class EarlyUpdates {
 public:
  explicit EarlyUpdates(const Graph& graph)
      : graph_(graph), rewriter_(graph), readers_left_(graph.values().size(), 0), made_(graph.values().size(), false) {
    for (const Node& node : graph.nodes()) for_each_read(node, [&](ValueId value) { ++readers_left_[index(value)]; });
  }

  Graph run() {
    rewriter_.copy_sources();
    for (std::size_t v = 0; v < made_.size(); ++v) made_[v] = graph_.values()[v].producer == kNoNode;
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::kUpdate) waiting_.push_back(&node);
    }
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::kUpdate) continue;
      emit(node);
      emit_ready();
    }
    check(waiting_.empty(), "every update can run after the last node of backward");
    rewriter_.copy_outputs();
    return rewriter_.take();
  }

 private:
  static std::size_t index(ValueId value) { return static_cast<std::size_t>(value); }

  template <typename Function>
  static void for_each_read(const Node& node, const Function& function) {
    for (const ValueId input : node.inputs) function(input);
    if (node.row_count != kNoValue) function(node.row_count);
  }

  void emit(const Node& node) {
    rewriter_.copy_node(node);
    for_each_read(node, [&](ValueId value) { --readers_left_[index(value)]; });
    for (const ValueId output : node.outputs) made_[index(output)] = true;
  }

  // Emits updates that are ready in their old order; they may wait for each other (the norm for its sums).
  void emit_ready() {
    std::erase_if(waiting_, [&](const Node* node) {
      const bool ready = is_ready(*node);
      if (ready) emit(*node);
      return ready;
    });
  }

  bool is_ready(const Node& node) const {
    bool ready = true;
    for_each_read(node, [&](ValueId value) { ready = ready && made_[index(value)]; });
    if (!ready) return false;
    const std::vector<Alias> aliases = op_aliases(node.op, node.inputs.size());
    return std::all_of(aliases.begin(), aliases.end(), [&](const Alias& alias) {
      return alias.kind != Alias::Kind::kMust || readers_left_[index(node.inputs[alias.input])] == 1;
    });
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<int> readers_left_;  // by value: nodes that still have to read it
  std::vector<bool> made_;
  std::vector<const Node*> waiting_;  // updates, in their old order
};

class BackwardRepeater {
 public:
  explicit BackwardRepeater(const Graph& graph)
      : graph_(graph), rewriter_(graph), depends_(graph.values().size(), false) {}

  Graph run() {
    rewriter_.copy_sources();
    std::vector<const Node*> updates;
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::kUpdate && depends_on_norm(node)) {
        updates.push_back(&node);
      } else {
        check_repeatable(node);
        rewriter_.copy_node(node);
      }
    }
    // Values that the host reads from a backward, such as a loss computed with its gradients, come from the first pass.
    std::map<ValueId, ValueId> of_first;
    for (const ValueId output : graph_.outputs()) {
      const NodeId producer = graph_.value(output).producer;
      if (producer == kNoNode || graph_.node(producer).phase != Phase::kBackward) continue;
      of_first[output] = rewriter_.mapped(output);
    }
    for (const Node& node : graph_.nodes()) {
      if (node.phase != Phase::kBackward) continue;
      Node again = node;
      again.name += ".second";
      rewriter_.copy_node(again);
    }
    for (const Node* node : updates) rewriter_.copy_node(*node);
    for (const auto& [output, first] : of_first) rewriter_.map(output, first);
    rewriter_.copy_outputs();
    return rewriter_.take();
  }

 private:
  // Marks the nodes that depend on the norm.
  bool depends_on_norm(const Node& node) {
    const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId input) { return depends_[static_cast<std::size_t>(input)]; });
    if (depends || node.op == Op::kGradientNorm) {
      for (const ValueId output : node.outputs) depends_[static_cast<std::size_t>(output)] = true;
    }
    return depends;
  }

  // A sum that the backward itself begins is begun again.
  void check_repeatable(const Node& node) const {
    if (node.phase != Phase::kBackward) return;
    for (const Alias& alias : op_aliases(node.op, node.inputs.size())) {
      check(alias.kind != Alias::Kind::kMust || !is_persistent(graph_.value(node.inputs[alias.input]).role),
            [&] { return fmt::format("'{}' changes a state and cannot run twice", node.name); });
    }
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<bool> depends_;
};

}  // namespace

Graph update_early(const Graph& graph) { return EarlyUpdates(graph).run(); }

Graph repeat_backward(const Graph& graph) { return BackwardRepeater(graph).run(); }

}  // namespace plimsoll
