#include "graph/op_work.h"

#include <algorithm>
#include <variant>

#include "graph/attention_form.h"
#include "graph/update_form.h"

namespace plimsoll {
namespace {

double elements(const Graph& graph, ValueId value) { return static_cast<double>(graph.type(value).shape.elements()); }

double last_dimension(const Graph& graph, ValueId value) {
  const Shape& shape = graph.type(value).shape;
  return static_cast<double>(shape[shape.rank() - 1]);
}

}  // namespace

double no_work(const Graph&, const Node&) { return 0; }

double element_work(const Graph& graph, const Node& node) {
  double sum = 0;
  for (const ValueId value : node.inputs) sum += elements(graph, value);
  for (const ValueId value : node.outputs) sum += elements(graph, value);
  return sum;
}

double lookup_work(const Graph& graph, const Node& node) { return 2 * elements(graph, node.outputs[0]); }

double linear_work(const Graph& graph, const Node& node) {
  return elements(graph, node.outputs[0]) * last_dimension(graph, node.inputs[0]);
}

double row_norms_work(const Graph& graph, const Node& node) {
  return elements(graph, node.inputs[0]) * (last_dimension(graph, node.inputs[2]) + 1);
}

double linear_input_grad_work(const Graph& graph, const Node& node) {
  return elements(graph, node.inputs[0]) * last_dimension(graph, node.outputs[0]);
}

double linear_weight_grad_work(const Graph& graph, const Node& node) {
  return elements(graph, node.inputs[0]) * last_dimension(graph, node.inputs[1]);
}

double pair_scores_grad_work(const Graph& graph, const Node& node) {
  return 2 * elements(graph, node.inputs[0]) * last_dimension(graph, node.inputs[1]);
}

double contrastive_work(const Graph& graph, const Node& node) {
  // Each of n rows meets the n / 2 of the other side: once for the sums, twice for the gradient.
  return 1.5 * elements(graph, node.inputs[0]) * static_cast<double>(graph.type(node.inputs[0]).shape[0]);
}

// Rows attend within their sample, to n/B keys each. inputs[0] is f[n, D] in both ops, sample offsets i32[B+1].
double attention_work(const Graph& graph, const Node& node) {
  const ValueId offsets = node.inputs[attention_form(node).sample_offsets()];
  const double samples = std::max(1.0, elements(graph, offsets) - 1);
  const double rows = static_cast<double>(graph.type(node.inputs[0]).shape[0]);
  const double seen = attention_attributes(node).causal ? 0.5 : 1;
  return seen * elements(graph, node.inputs[0]) * rows / samples;
}

// Counts as if every row saw the whole table.
double cached_attention_work(const Graph& graph, const Node& node) {
  return elements(graph, node.inputs[0]) * static_cast<double>(graph.type(node.inputs[1]).shape[0]);
}

double relation_loss_work(const Graph& graph, const Node& node) {
  const double samples = std::max(1.0, elements(graph, node.inputs[2]) - 1);
  const double rows = static_cast<double>(graph.type(node.inputs[0]).shape[0]);
  return (elements(graph, node.inputs[0]) + elements(graph, node.inputs[1])) * rows / samples;
}

double adamw_work(const Graph& graph, const Node& node) {
  const auto& attributes = std::get<AdamWAttributes>(node.attributes);
  if (attributes.count == 0) return element_work(graph, node);
  const UpdateForm form = update_form(graph, node);
  const double whole = elements(graph, node.inputs[0]), share = static_cast<double>(attributes.count) / whole;
  double sum = 2 * share * whole * static_cast<double>(form.parameter_parts);
  for (std::size_t i = form.states(); i < form.gradient(); ++i) sum += 2 * elements(graph, node.inputs[i]);
  for (std::size_t i = form.gradient(); i < form.scalars(); ++i) sum += share * elements(graph, node.inputs[i]);
  return sum;
}

}  // namespace plimsoll
