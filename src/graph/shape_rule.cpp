#include "graph/shape_rule.h"

#include <fmt/format.h>

#include <string>

#include "graph/op_facts.h"

namespace plimsoll {

const TensorType& ShapeRule::in(std::size_t i) const {
  require(i < count(), [&] { return fmt::format("has too few inputs ({})", count()); });
  return graph_.type(node_.inputs[i]);
}

std::int64_t ShapeRule::dim(std::size_t i, std::size_t axis) const {
  require(axis < in(i).shape.rank(), [&] { return fmt::format("input {} has too few dimensions", i); });
  return in(i).shape[axis];
}

void ShapeRule::fail(std::string_view what) const {
  std::string types;
  for (const ValueId input : node_.inputs) types += fmt::format(" {}", to_string(graph_.type(input)));
  check(false, fmt::format("node '{}' ({}) {}; inputs:{}", node_.name, op_name(node_.op), what, types));
}

void ShapeRule::inputs(std::size_t low, std::size_t high) const {
  require(count() >= low && count() <= high, [&] { return fmt::format("takes {} to {} inputs", low, high); });
}

const TensorType& ShapeRule::floating(std::size_t i, std::size_t rank) const {
  const TensorType& type = in(i);
  require(is_floating(type.dtype) && type.shape.rank() == rank,
          [&] { return fmt::format("input {} is a floating tensor of rank {}", i, rank); });
  return type;
}

const TensorType& ShapeRule::matrix(std::size_t i) const {
  return is_coded(in(i).dtype) && in(i).shape.rank() == 2 ? in(i) : floating(i, 2);
}

void ShapeRule::expect(std::size_t i, const TensorType& type) const {
  require(in(i) == type, [&] { return fmt::format("input {} must be {}", i, to_string(type)); });
}

void ShapeRule::require_weight(const TensorType& weight, DType f) const {
  require(weight.dtype == f || weight.dtype == wide(f) || is_coded(weight.dtype),
          "has a weight of its rows' type, wider, or coded");
}

TensorType ShapeRule::key_value_type(const TensorType& q) const {
  const AttentionAttributes& of = attention_attributes(node_);
  const std::int64_t shared = key_value_heads(of);
  require(of.heads > 0 && q.shape[1] % of.heads == 0, "splits D into whole heads");
  require(shared > 0 && of.heads % shared == 0, "has one head of k and v for each group of heads");
  require(!of.column_sums || shared == of.heads, "has column sums only if each head has its own k and v");
  require((!of.causal && shared == of.heads) || (!of.position_bias && !of.spatial_bias),
          "has no biases if it is causal or heads share keys");
  return {q.dtype, {q.shape[0], q.shape[1] / of.heads * shared}};
}

void ShapeRule::require_attention_context(std::int64_t n, DType f) const {
  const AttentionForm form = attention_form(node_);
  const AttentionAttributes& attributes = attention_attributes(node_);
  inputs(form.inputs());
  const TensorType& offsets = in(form.sample_offsets());
  require(offsets.dtype == DType::kI32 && offsets.shape.rank() == 1, "sample_offsets is i32[B+1]");
  expect(form.key_mask(), i32({n}));
  if (form.op != Op::kAttentionBias) {
    expect(form.row_keys(), i32({n, 2}));
    expect(form.dropout_key(), i32({2}));
  }
  if (form.tables() > 0) expect(form.coordinates(), i32({n, 3}));
  for (std::size_t bias = 0; bias < AttentionForm::kBiases; ++bias) {
    if (!form.has_bias[bias]) continue;
    const TensorType& type = floating(form.table(bias), 2);
    require(type.dtype == wide(f) && type.shape[0] == attributes.heads, "bias tables are w[H, bins]");
  }
  require(!form.made_biases || form.tables() > 0, "has tables, of which its biases are made");
  if (form.made_biases) expect(form.biases(), {f, {n, attributes.heads * attention_bias_keys(attributes, n)}});
}

void ShapeRule::require_layer_norm_dropout(std::int64_t n) const {
  const double p = attributes<LayerNormAttributes>().dropout_p;
  const bool drops = count() > LayerNormForm::kRowKeys;
  require(p >= 0 && p < 1 && drops == (p > 0), "has p in [0, 1), and keys if it is not 0");
  if (!drops) return;
  inputs(LayerNormForm::kDropoutKey + 1);
  expect(LayerNormForm::kRowKeys, i32({n, 2}));
  expect(LayerNormForm::kDropoutKey, i32({2}));
}

std::vector<TensorType> infer_types(const Graph& graph, const Node& node) {
  return op_facts(node.op).types(ShapeRule(graph, node));
}

}  // namespace plimsoll
