// The shape rules and the facts of the ops that compute gradients.
#include "graph/layer_norm_form.h"
#include "graph/op_facts.h"
#include "graph/op_work.h"
#include "graph/partial_sums.h"
#include "graph/shape_rule.h"

namespace plimsoll {
namespace {

Types embedding_grad_types(const ShapeRule& rule) {
  rule.inputs(2, 3);
  const TensorType& dy = rule.floating(0, 2);
  rule.expect(1, i32({dy.shape[0]}));
  const auto& attributes = rule.attributes<EmbeddingAttributes>();
  rule.require(attributes.first_row >= 0, "begins with a row of the table");
  const TensorType type{dy.dtype, {attributes.table_rows, dy.shape[1]}};
  if (rule.count() == 3) rule.expect(2, type);
  return {type};
}

Types embedding_row_grad_types(const ShapeRule& rule) {
  rule.inputs(2);
  const TensorType& dy = rule.floating(0, 2);
  rule.expect(1, i32({dy.shape[0]}));
  rule.attributes<EmbeddingAttributes>();
  return {i32({dy.shape[0]}), i32({1}), dy};
}

Types spatial_embedding_grad_types(const ShapeRule& rule) {
  rule.inputs(2);
  const TensorType& dy = rule.floating(0, 2);
  rule.expect(1, i32({dy.shape[0], 4}));
  const auto& attributes = rule.attributes<SpatialAttributes>();
  rule.require(attributes.columns() == dy.shape[1], "splits D as the tables do");
  const TensorType coordinate{dy.dtype, {attributes.table_rows, attributes.coordinate_size}};
  const TensorType size{dy.dtype, {attributes.table_rows, attributes.shape_size}};
  return {coordinate, coordinate, size, size};
}

Types visual_embedding_grad_types(const ShapeRule& rule) {
  rule.inputs(1);
  const TensorType& dy = rule.floating(0, 2);
  const std::int64_t visual = rule.attributes<VisualAttributes>().patches + 1;
  const std::int64_t width = dy.shape[1];
  rule.require(visual > 1 && dy.shape[0] % visual == 0, "rows come in whole samples");
  return {{dy.dtype, {dy.shape[0] / visual * (visual - 1), width}},
          {dy.dtype, {1, 1, width}},
          {dy.dtype, {1, visual, width}}};
}

Types linear_input_grad_types(const ShapeRule& rule) {
  rule.inputs(2, 3);
  const TensorType& dy = rule.floating(0, 2);
  const TensorType& weight = rule.matrix(1);
  rule.require(dy.shape[1] == weight.shape[0], "dy and weight share M");
  rule.require_weight(weight, dy.dtype);
  const TensorType dx{dy.dtype, {dy.shape[0], weight.shape[1]}};
  if (rule.count() == 3) {
    rule.require(!is_coded(weight.dtype), "adds to nothing with a coded weight");
    rule.expect(2, dx);
  }
  return {dx};
}

Types linear_weight_grad_types(const ShapeRule& rule) {
  rule.inputs(2, 4);
  const TensorType& dy = rule.floating(0, 2);
  const TensorType& x = rule.floating(1, 2);
  rule.require(dy.shape[0] == x.shape[0] && dy.dtype == x.dtype, "dy and x share rows and dtype");
  const TensorType type{wide(dy.dtype), {dy.shape[1], x.shape[1]}};
  if (rule.count() == 2) return {type};
  rule.expect(2, type);
  if (rule.count() == 4) rule.expect(3, i32({1}));
  return {rule.in(2)};
}

// Puts the node's sums in parts, if it says so; `types` has them whole.
Types in_parts(const ShapeRule& rule, Types types) {
  const std::int64_t parts = partial_sums(rule.node());
  rule.require(parts >= 0, "has a number of parts");
  if (parts == 0) return types;
  const SummedOutputs sums = summed_outputs(rule.node()).value();
  const TensorType whole = types[sums.first];
  types.resize(sums.first);
  types.push_back({whole.dtype, {parts, sums.count * whole.shape[0]}});
  return types;
}

Types bias_grad_types(const ShapeRule& rule) {
  rule.inputs(1);
  const TensorType& dy = rule.floating(0, 2);
  return in_parts(rule, {{wide(dy.dtype), {dy.shape[1]}}});
}

Types add_partial_sums_types(const ShapeRule& rule) {
  const auto& attributes = rule.attributes<PartialSumsAttributes>();
  rule.require(rule.count() > 0 && attributes.sums.size() == rule.count(), "says how many sums each input has");
  Types types;
  for (std::size_t i = 0; i < rule.count(); ++i) {
    const TensorType& parts = rule.floating(i, 2);
    const std::int64_t sums = attributes.sums[i];
    rule.require(!is_half(parts.dtype), "adds up sums of a wide type");
    rule.require(sums > 0 && parts.shape[1] % sums == 0, "divides its inputs' columns among sums");
    for (std::int64_t sum = 0; sum < sums; ++sum) types.push_back({parts.dtype, {parts.shape[1] / sums}});
  }
  return types;
}

Types layer_norm_grad_types(const ShapeRule& rule) {
  rule.inputs(4, 6);
  const TensorType& dy = rule.floating(0, 2);
  rule.expect(1, dy);
  rule.expect(2, {wide(dy.dtype), {dy.shape[0]}});
  rule.expect(3, {wide(dy.dtype), {dy.shape[1]}});
  rule.require_layer_norm_dropout(dy.shape[0]);
  const LayerNormForm form = layer_norm_form(rule.node());
  Types types = {dy};
  if (form.drops) types.push_back(dy);
  types.insert(types.end(), form.column_sums ? 3 : 2, rule.in(3));
  return in_parts(rule, std::move(types));
}

Types attention_grad_types(const ShapeRule& rule) {
  rule.require(rule.count() >= 6, "has doutput, q, k, v, output and log_sum_exp");
  const TensorType& q = rule.floating(1, 2);
  const TensorType k = rule.key_value_type(q);
  for (const std::size_t i : {0, 4}) rule.expect(i, q);
  for (const std::size_t i : {2, 3}) rule.expect(i, k);
  const auto& attributes = rule.attributes<AttentionAttributes>();
  const AttentionForm form = attention_form(rule.node());
  rule.expect(5, {wide(q.dtype), {q.shape[0], 2 * attributes.heads}});
  rule.require_attention_context(q.shape[0], q.dtype);
  Types types = {q, k, k};
  for (std::size_t bias = 0; attributes.table_gradients && bias < AttentionForm::kBiases; ++bias) {
    if (form.has_bias[bias]) types.push_back(rule.in(form.table(bias)));
  }
  for (std::size_t i = 0; attributes.column_sums && i < 3; ++i) {
    types.push_back({wide(q.dtype), {types[i].shape[1]}});
  }
  return in_parts(rule, std::move(types));
}

Types pair_scores_grad_types(const ShapeRule& rule) {
  rule.require(rule.node().row_count == kNoValue, "has no row count");
  rule.inputs(3);
  const TensorType& dy = rule.floating(0, 2);
  const TensorType& heads = rule.floating(1, 2);
  const std::int64_t rows = heads.shape[0], group = rule.attributes<PairAttributes>().group;
  rule.require(group > 0 && rows % group == 0, "pairs whole groups of rows");
  rule.expect(0, {heads.dtype, {rows * group, dy.shape[1]}});
  rule.expect(2, {heads.dtype, {rows, heads.shape[1] * dy.shape[1]}});
  const TensorType terms{dy.dtype, {rows, dy.shape[1]}};
  return {heads, rule.in(2), terms, terms};
}

Types join_pairs_grad_types(const ShapeRule& rule) {
  rule.inputs(2);
  const TensorType& x = rule.floating(1, 2);
  const std::int64_t parts = rule.attributes<JoinAttributes>().products ? 4 : 2;
  rule.expect(0, {x.dtype, {x.shape[0], parts * x.shape[1]}});
  return {x};
}

Types elementwise_grad_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.floating(0, 2);
  rule.expect(1, rule.in(0));
  return {rule.in(0)};
}

Types gelu_grad_types(const ShapeRule& rule) {
  Types types = elementwise_grad_types(rule);
  if (rule.attributes<GeluAttributes>().column_sums) {
    types.push_back({wide(rule.in(0).dtype), {rule.in(0).shape[1]}});
  }
  return in_parts(rule, std::move(types));
}

Types rms_norm_grad_types(const ShapeRule& rule) {
  rule.inputs(4);
  rule.attributes<RmsNormAttributes>();
  const TensorType& dy = rule.floating(0, 2);
  const std::int64_t width = rule.floating(3, 1).shape[0];
  rule.expect(1, dy);
  rule.require(width > 0 && dy.shape[1] % width == 0, "normalizes whole groups of gamma's width");
  rule.expect(2, {wide(dy.dtype), {dy.shape[0], dy.shape[1] / width}});
  rule.expect(3, {wide(dy.dtype), {width}});
  return in_parts(rule, {dy, rule.in(3)});
}

Types silu_multiply_grad_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& dy = rule.floating(0, 2);
  rule.expect(1, dy);
  rule.expect(2, dy);
  return {dy, dy};
}

std::size_t layer_norm_row_outputs(const Node& node) { return layer_norm_form(node).of_x() + 1; }

// The gate's gradient may lie in the gate's bytes or dy's, and x's in x's.
constexpr OpAliases kSiluMultiplyGradAliases = {
    .pairs = {{{0, 1, Alias::Kind::kMay}, {0, 0, Alias::Kind::kMay}, {1, 2, Alias::Kind::kMay}}}, .pair_count = 3};

// dx may lie in dy's or normalized's bytes, and `dropped` in normalized's.
constexpr OpAliases kLayerNormGradAliases = {
    .pairs = {{{0, 0, Alias::Kind::kMay}, {0, 1, Alias::Kind::kMay}, {1, 1, Alias::Kind::kMay}}}, .pair_count = 3};

// A gradient of a parameter sums all rows.
constexpr OutputRows kWhole = {.count = 0};

constexpr OpFacts kBackwardRows[] = {
    {.op = Op::kEmbeddingGrad,
     .name = "embedding_grad",
     .types = embedding_grad_types,
     .work = element_work,
     .aliases = must_take(0, 2),
     .rows = kWhole},
    {.op = Op::kEmbeddingRowGrad,
     .name = "embedding_row_grad",
     .types = embedding_row_grad_types,
     .work = element_work,
     .rows = {.counted = OutputRows::Counted::kBySecondOutput}},
    {.op = Op::kSpatialEmbeddingGrad,
     .name = "spatial_embedding_grad",
     .types = spatial_embedding_grad_types,
     .work = element_work,
     .rows = kWhole},
    {.op = Op::kVisualEmbeddingGrad,
     .name = "visual_embedding_grad",
     .types = visual_embedding_grad_types,
     .work = element_work,
     .rows = {.counted = OutputRows::Counted::kByPatches, .count = 1}},
    {.op = Op::kLinearInputGrad,
     .name = "linear_input_grad",
     .types = linear_input_grad_types,
     .work = linear_input_grad_work,
     .priced_like = Op::kLinear,
     .aliases = may_take(0, {2}),
     .takes_halves = true,
     .takes_codes = true},
    {.op = Op::kLinearWeightGrad,
     .name = "linear_weight_grad",
     .types = linear_weight_grad_types,
     .work = linear_weight_grad_work,
     .priced_like = Op::kLinear,
     .aliases = must_take(0, 2),
     .takes_halves = true,
     .rows = kWhole},
    {.op = Op::kBiasGrad,
     .name = "bias_grad",
     .types = bias_grad_types,
     .work = element_work,
     .takes_halves = true,
     .rows = kWhole},
    {.op = Op::kLayerNormGrad,
     .name = "layer_norm_grad",
     .types = layer_norm_grad_types,
     .work = element_work,
     .aliases = kLayerNormGradAliases,
     .takes_halves = true,
     .rows = {.count_of = layer_norm_row_outputs}},
    {.op = Op::kRmsNormGrad,
     .name = "rms_norm_grad",
     .types = rms_norm_grad_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true,
     .rows = {.count = 1}},
    {.op = Op::kAttentionGrad,
     .name = "attention_grad",
     .types = attention_grad_types,
     .work = attention_work,
     .priced_like = Op::kAttentionGrad,
     .takes_halves = true,
     .rows = {.count = 3}},
    {.op = Op::kPairScoresGrad,
     .name = "pair_scores_grad",
     .types = pair_scores_grad_types,
     .work = pair_scores_grad_work,
     .priced_like = Op::kLinear},
    {.op = Op::kJoinPairsGrad, .name = "join_pairs_grad", .types = join_pairs_grad_types, .work = element_work},
    {.op = Op::kReluGrad,
     .name = "relu_grad",
     .types = elementwise_grad_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true},
    {.op = Op::kGeluGrad,
     .name = "gelu_grad",
     .types = gelu_grad_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true,
     .rows = {.count = 1}},
    {.op = Op::kSiluMultiplyGrad,
     .name = "silu_multiply_grad",
     .types = silu_multiply_grad_types,
     .work = element_work,
     .aliases = kSiluMultiplyGradAliases,
     .takes_halves = true},
    {.op = Op::kTanhGrad,
     .name = "tanh_grad",
     .types = elementwise_grad_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true},
    {.op = Op::kAddPartialSums,
     .name = "add_partial_sums",
     .types = add_partial_sums_types,
     .work = element_work,
     .rows = kWhole},
};

}  // namespace

std::span<const OpFacts> backward_ops() { return kBackwardRows; }

}  // namespace plimsoll
