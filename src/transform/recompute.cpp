#include "transform/recompute.h"

#include <map>
#include <vector>

#include "graph/op_facts.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

class Recomputer {
 public:
  Recomputer(const Graph& graph, const RecomputePolicy& policy) : rewriter_(graph), graph_(graph), policy_(policy) {}

  Graph run() {
    rewriter_.copy_sources();
    for (const Node& node : graph_.nodes()) {
      if (node.phase != Phase::kBackward) {
        rewriter_.copy_node(node);
        continue;
      }
      std::vector<ValueId> inputs;
      inputs.reserve(node.inputs.size());
      for (const ValueId input : node.inputs) inputs.push_back(for_backward(input));
      rewriter_.copy_node(node, std::move(inputs));
    }
    rewriter_.copy_outputs();
    return rewriter_.take();
  }

 private:
  // Returns the new graph's value that replaces `old` in backward nodes.
  ValueId for_backward(ValueId old) {
    const Value& value = graph_.value(old);
    if (value.producer == kNoNode) return rewriter_.mapped(old);
    const Node& node = graph_.node(value.producer);
    const auto output = static_cast<std::size_t>(value.output_index);
    if (node.phase != Phase::kForward || !policy_(graph_, node, output)) return rewriter_.mapped(old);
    if (const auto known = again_.find(old); known != again_.end()) return known->second;
    compute_again(node, output);
    return again_.at(old);
  }

  void compute_again(const Node& node, std::size_t output) {
    Node copy = node;
    copy.name += ".again";
    copy.phase = Phase::kBackward;
    copy.row_count = node.row_count == kNoValue ? kNoValue : rewriter_.mapped(node.row_count);
    if (node.op == Op::kLayerNorm && output == 0 && !policy_(graph_, node, 1)) {
      // The copy is computed from the normalized output, which backward keeps anyway.
      copy.op = Op::kAffine;
      copy.attributes = NoAttributes{};
      copy.inputs = {for_backward(node.outputs[1]), for_backward(node.inputs[1]), for_backward(node.inputs[2])};
      again_[node.outputs[0]] = rewriter_.graph().add_node(std::move(copy))[0];
      return;
    }
    for (ValueId& input : copy.inputs) input = for_backward(input);
    const std::vector<ValueId> outputs = rewriter_.graph().add_node(std::move(copy));
    for (std::size_t i = 0; i < outputs.size(); ++i) again_[node.outputs[i]] = outputs[i];
  }

  Rewriter rewriter_;
  const Graph& graph_;
  const RecomputePolicy& policy_;
  std::map<ValueId, ValueId> again_;
};

}  // namespace

bool is_cheap(const Graph&, const Node& node, std::size_t output) { return output < op_facts(node.op).cheap_outputs; }

Graph recompute(const Graph& graph, const RecomputePolicy& policy) { return Recomputer(graph, policy).run(); }

}  // namespace plimsoll
