#include "autodiff/autodiff.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "autodiff/rules.h"
#include "graph/build.h"

namespace plimsoll {

Seed loss_seed(const Graph& graph, ValueId loss) {
  const NodeId producer = graph.value(loss).producer;
  check(producer != kNoNode && is_loss(graph.node(producer).op), "the loss is the first output of a loss's node");
  const Node& node = graph.node(producer);
  return {.value = node.inputs[0], .gradient = node.outputs[1]};
}

BackwardWalk::BackwardWalk(Graph& graph, std::span<const ValueId> wanted)
    : graph_(graph),
      needed_(graph.values().size(), false),
      bias_done_(graph.values().size(), false),
      readers_(graph.values().size(), 0),
      gradients_(graph.values().size()) {
  for (const ValueId value : wanted) needed_.at(static_cast<std::size_t>(value)) = true;
  // A value is needed if a wanted value depends on it.
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) ++readers_[static_cast<std::size_t>(input)];
    if (is_constant(node.op)) continue;
    const bool flows = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return needs(input); });
    if (!flows) continue;
    for (const ValueId output : node.outputs) needed_[static_cast<std::size_t>(output)] = true;
  }
}

bool BackwardWalk::needs(ValueId value) const { return needed_[static_cast<std::size_t>(value)]; }

ValueId BackwardWalk::gradient_of(ValueId value) const { return gradients_[static_cast<std::size_t>(value)].dense; }

void BackwardWalk::contribute(ValueId value, ValueId gradient, ValueId rows) {
  if (!needs(value)) return;
  Gradient& sum = gradients_[static_cast<std::size_t>(value)];
  check(!sum.by_rows(), "dense and row gradients of one value are not mixed");
  if (sum.dense == kNoValue) {
    sum.dense = gradient;
    return;
  }
  // The sum covers the value's own rows. One user's gradient may hold more (gather_rows writes a row for each row of
  // the capacity), another's only these, so the row count of one does not say which rows of another can be read.
  const NodeId producer = graph_.value(value).producer;
  const bool is_source = producer == kNoNode;
  sum.dense = add_single(
      graph_, {.op = Op::kAdd,
               .name = fmt::format("{}.grad", is_source ? graph_.value(value).name : graph_.node(producer).name),
               .inputs = {sum.dense, gradient},
               .row_count = is_source ? rows : graph_.node(producer).row_count,
               .phase = Phase::kBackward});
}

void BackwardWalk::contribute_rows(ValueId value, Gradient gradient) {
  Gradient& sum = gradients_[static_cast<std::size_t>(value)];
  check(sum.dense == kNoValue && !sum.by_rows(), "a table with row gradients is looked up once");
  sum = gradient;
}

ValueId BackwardWalk::bias_behind(ValueId value, ValueId rows) const {
  const auto at = static_cast<std::size_t>(value);
  const NodeId producer = graph_.value(value).producer;
  if (producer == kNoNode || readers_[at] != 1 || gradient_of(value) != kNoValue) return kNoValue;
  const Node& map = graph_.node(producer);
  const bool has_bias = map.op == Op::kLinear && map.inputs.size() == 3 && map.row_count == rows;
  if (!has_bias || !needs(map.inputs[2])) return kNoValue;
  return graph_.type(map.inputs[2]).dtype == wide(graph_.type(value).dtype) ? map.inputs[2] : kNoValue;
}

void BackwardWalk::contribute_bias(ValueId value, ValueId sums) {
  const Node& map = graph_.node(graph_.value(value).producer);
  bias_done_[static_cast<std::size_t>(value)] = true;
  contribute(map.inputs[2], sums, kNoValue);
}

std::vector<ValueId> BackwardWalk::append(const Node& forward, Op op, std::vector<ValueId> inputs,
                                          Attributes attributes) {
  return graph_.add_node({.op = op,
                          .name = fmt::format("{}.{}", forward.name, op_name(op)),
                          .attributes = attributes,
                          .inputs = std::move(inputs),
                          .row_count = forward.row_count,
                          .phase = Phase::kBackward});
}

std::map<ValueId, Gradient> append_backward(Graph& graph, std::span<const Seed> seeds,
                                            std::span<const ValueId> wanted) {
  BackwardWalk walk(graph, wanted);
  for (const Seed& seed : seeds) walk.contribute(seed.value, seed.gradient, kNoValue);
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node node = graph.nodes()[n];  // a copy: the rules append to the graph
    if (node.phase != Phase::kForward) continue;
    const bool reached = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId output) { return walk.gradient_of(output) != kNoValue; });
    if (reached) apply_rule(walk, node);
  }
  std::map<ValueId, Gradient> result;
  for (const ValueId value : wanted) {
    const Gradient& gradient = walk.gradient(value);
    if (gradient.dense != kNoValue || gradient.by_rows()) result.emplace(value, gradient);
  }
  return result;
}

}  // namespace plimsoll
