// The shape rules and the facts of the forward ops.
#include <limits>

#include "graph/layer_norm_form.h"
#include "graph/op_facts.h"
#include "graph/op_work.h"
#include "graph/shape_rule.h"

namespace plimsoll {
namespace {

Types embedding_types(const ShapeRule& rule) {
  rule.inputs(2);
  const TensorType& table = rule.matrix(0);
  rule.expect(1, i32({rule.dim(1, 0)}));
  rule.attributes<EmbeddingAttributes>();
  return {{is_coded(table.dtype) ? DType::kF32 : table.dtype, {rule.dim(1, 0), table.shape[1]}}};
}

Types spatial_embedding_types(const ShapeRule& rule) {
  rule.inputs(5);
  const auto& attributes = rule.attributes<SpatialAttributes>();
  for (std::size_t i = 0; i < 4; ++i) {
    rule.require(rule.floating(i, 2).dtype == rule.in(0).dtype && rule.dim(i, 0) == rule.dim(0, 0),
                 "tables share dtype and rows");
  }
  rule.expect(1, rule.in(0));
  rule.expect(3, rule.in(2));
  rule.require(attributes.table_rows == rule.dim(0, 0) && attributes.coordinate_size == rule.dim(0, 1) &&
                   attributes.shape_size == rule.dim(2, 1),
               "says what its tables are");
  rule.require(!attributes.sums || attributes.coordinate_size == attributes.shape_size, "sums rows of one width");
  rule.expect(4, i32({rule.dim(4, 0), 4}));
  return {{rule.in(0).dtype, {rule.dim(4, 0), attributes.columns()}}};
}

Types patchify_types(const ShapeRule& rule) {
  rule.inputs(1);
  const TensorType& pixels = rule.floating(0, 4);
  const std::int64_t size = rule.attributes<PatchAttributes>().patch_size;
  rule.require(size > 0 && pixels.shape[2] % size == 0 && pixels.shape[3] % size == 0,
               "needs an image that patches tile");
  const std::int64_t patches = (pixels.shape[2] / size) * (pixels.shape[3] / size);
  return {{pixels.dtype, {pixels.shape[0] * patches, pixels.shape[1] * size * size}}};
}

Types visual_embedding_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& patches = rule.floating(0, 2);
  const std::int64_t width = patches.shape[1];
  const std::int64_t visual = rule.dim(2, 1);
  rule.expect(1, {patches.dtype, {1, 1, width}});
  rule.expect(2, {patches.dtype, {1, visual, width}});
  rule.require(visual > 1 && patches.shape[0] % (visual - 1) == 0, "patches come in whole samples");
  return {{patches.dtype, {patches.shape[0] / (visual - 1) * visual, width}}};
}

Types add_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.expect(1, rule.in(0));
  return {rule.in(0)};
}

Types linear_types(const ShapeRule& rule) {
  rule.inputs(2, 3);
  const TensorType& x = rule.floating(0, 2);
  const TensorType& weight = rule.matrix(1);
  rule.require(x.shape[1] == weight.shape[1], "x and weight share K");
  rule.require_weight(weight, x.dtype);
  if (rule.count() == 3) {
    const DType bias = rule.in(2).dtype;
    rule.require(bias == x.dtype || bias == wide(x.dtype), "has a bias of its rows' type, or wider");
    rule.expect(2, {bias, {weight.shape[0]}});
  }
  return {{x.dtype, {x.shape[0], weight.shape[0]}}};
}

Types linear_add_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& x = rule.floating(0, 2);
  const TensorType& weight = rule.floating(1, 2);
  rule.require(x.shape[1] == weight.shape[1], "x and weight share K");
  rule.require_weight(weight, x.dtype);
  rule.expect(2, {x.dtype, {x.shape[0], weight.shape[0]}});
  return {rule.in(2)};
}

Types scale_types(const ShapeRule& rule) {
  rule.inputs(1);
  rule.attributes<ScaleAttributes>();
  return {rule.floating(0, 2)};
}

Types multiply_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.require(is_floating(rule.in(0).dtype), "multiplies floating numbers");
  rule.expect(1, rule.in(0));
  return {rule.in(0)};
}

Types inverse_row_norms_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& weight = rule.matrix(0);
  const TensorType& a = rule.floating(1, 2);
  rule.require(!is_half(a.dtype), "a is wide");
  rule.require(a.shape[1] == weight.shape[1], "weight and a share K");
  rule.require(is_coded(weight.dtype) || wide(weight.dtype) == a.dtype, "a has the weight's wide type");
  rule.expect(2, {a.dtype, {weight.shape[0], a.shape[0]}});
  rule.attributes<ScaleAttributes>();
  return {{a.dtype, {weight.shape[0]}}};
}

Types layer_norm_types(const ShapeRule& rule) {
  rule.inputs(3, 6);
  const TensorType& x = rule.floating(0, 2);
  rule.expect(1, {wide(x.dtype), {x.shape[1]}});
  rule.expect(2, rule.in(1));
  if (rule.count() > LayerNormForm::kResidual) rule.expect(LayerNormForm::kResidual, x);
  rule.require_layer_norm_dropout(x.shape[0]);
  return {x, x, {wide(x.dtype), {x.shape[0]}}};
}

Types affine_types(const ShapeRule& rule) {
  rule.inputs(2, 3);
  const TensorType& x = rule.floating(0, 2);
  rule.expect(1, {wide(x.dtype), {x.shape[1]}});
  if (rule.count() == 3) rule.expect(2, rule.in(1));
  return {x};
}

Types rms_norm_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.attributes<RmsNormAttributes>();
  const TensorType& x = rule.floating(0, 2);
  const std::int64_t width = rule.floating(1, 1).shape[0];
  rule.expect(1, {wide(x.dtype), {width}});
  rule.require(width > 0 && x.shape[1] % width == 0, "normalizes whole groups of gamma's width");
  return {x, x, {wide(x.dtype), {x.shape[0], x.shape[1] / width}}};
}

Types rotary_table_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.expect(0, i32({rule.dim(0, 0)}));
  const TensorType& frequencies = rule.floating(1, 1);
  rule.require(!is_half(frequencies.dtype), "has wide frequencies");
  return {{frequencies.dtype, {rule.dim(0, 0), 2 * frequencies.shape[0]}}};
}

Types rotary_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.attributes<RotaryAttributes>();
  const TensorType& x = rule.floating(0, 2);
  const std::int64_t width = rule.floating(1, 2).shape[1];
  rule.expect(1, {wide(x.dtype), {x.shape[0], width}});
  rule.require(width > 0 && width % 2 == 0 && x.shape[1] % width == 0, "turns whole heads of the table's width");
  return {x};
}

Types dropout_types(const ShapeRule& rule) {
  rule.inputs(3);
  const auto& attributes = rule.attributes<DropoutAttributes>();
  const TensorType& x = rule.floating(0, 2);
  rule.expect(1, i32({x.shape[0], 2}));
  rule.expect(2, i32({2}));
  rule.require(attributes.p >= 0 && attributes.p < 1, "has p in [0, 1)");
  const DType to = attributes.to.value_or(x.dtype);
  rule.require(is_floating(to), "has a floating type");
  return {{to, x.shape}};
}

Types pack_rows_types(const ShapeRule& rule) {
  rule.inputs(5);
  const TensorType& text = rule.floating(0, 2);
  const TensorType& visual = rule.floating(1, 2);
  rule.require(text.dtype == visual.dtype && text.shape[1] == visual.shape[1], "text and visual share dtype and D");
  rule.expect(2, i32({rule.dim(2, 0)}));
  rule.expect(3, i32({text.shape[0]}));
  rule.expect(4, i32({visual.shape[0]}));
  return {{text.dtype, {rule.dim(2, 0), text.shape[1]}}};
}

Types gather_rows_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& x = rule.floating(0, 2);
  rule.expect(1, i32({rule.dim(1, 0)}));
  rule.expect(2, i32({x.shape[0]}));
  return {{x.dtype, {rule.dim(1, 0), x.shape[1]}}};
}

Types take_rows_types(const ShapeRule& rule) {
  rule.inputs(1);
  const auto& attributes = rule.attributes<RowPartAttributes>();
  const TensorType& x = rule.in(0);
  const std::size_t rank = x.shape.rank();
  rule.require(is_floating(x.dtype) ? rank == 2 : x.dtype == DType::kI32 && rank == 1,
               "takes floats' rows, or integers");
  rule.require(attributes.first >= 0 && attributes.count > 0 && attributes.first + attributes.count <= x.shape[0],
               "takes rows that are there");
  const Shape shape = rank == 1 ? Shape{attributes.count} : Shape{attributes.count, x.shape[1]};
  return {{x.dtype, shape}, i32({1})};
}

Types join_rows_types(const ShapeRule& rule) {
  rule.require(rule.count() > 0, "joins at least one tensor");
  const TensorType& first = rule.floating(0, 2);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < rule.count(); ++i) {
    const TensorType& part = rule.floating(i, 2);
    rule.require(part.dtype == first.dtype && part.shape[1] == first.shape[1] &&
                     (i + 1 == rule.count() ? part.shape[0] <= first.shape[0] : part.shape[0] == first.shape[0]),
                 "joins parts of as many rows, the last of which may have fewer");
    rows += part.shape[0];
  }
  return {{first.dtype, {rows, first.shape[1]}}};
}

Types heads_types(const ShapeRule& rule) {
  const auto& attributes = rule.attributes<HeadsAttributes>();
  rule.require(attributes.heads > 0 && attributes.first_size > 0 && attributes.second_size > 0,
               "has heads of two parts");
  const TensorType& x = rule.floating(0, 2);
  const std::int64_t first = attributes.heads * attributes.first_size;
  const std::int64_t second = attributes.heads * attributes.second_size;
  const auto of = [&](std::int64_t columns) { return TensorType{x.dtype, {x.shape[0], columns}}; };
  if (rule.node().op == Op::kConcatHeads) {
    rule.inputs(attributes.second ? 2 : 1);
    rule.expect(0, of(first));
    if (attributes.second) rule.expect(1, of(second));
    return {of(first + second)};
  }
  rule.inputs(1);
  rule.expect(0, of(first + second));
  if (attributes.second) return {of(first), of(second)};
  return {of(first)};
}

Types pair_scores_types(const ShapeRule& rule) {
  rule.require(rule.node().row_count == kNoValue, "has no row count");
  rule.inputs(4);
  const TensorType& heads = rule.floating(0, 2);
  const TensorType& terms = rule.floating(2, 2);
  const std::int64_t rows = heads.shape[0], group = rule.attributes<PairAttributes>().group;
  rule.require(group > 0 && rows % group == 0, "pairs whole groups of rows");
  rule.expect(1, {heads.dtype, {rows, heads.shape[1] * terms.shape[1]}});
  rule.expect(2, {heads.dtype, {rows, terms.shape[1]}});
  rule.expect(3, rule.in(2));
  return {{heads.dtype, {rows * group, terms.shape[1]}}};
}

Types join_pairs_types(const ShapeRule& rule) {
  rule.inputs(1);
  const TensorType& x = rule.floating(0, 2);
  const std::int64_t parts = rule.attributes<JoinAttributes>().products ? 4 : 2;
  return {{x.dtype, {x.shape[0], parts * x.shape[1]}}};
}

Types attention_types(const ShapeRule& rule) {
  rule.require(rule.count() >= 3, "has q, k and v");
  const TensorType& q = rule.floating(0, 2);
  const std::int64_t heads = rule.attributes<AttentionAttributes>().heads;
  const TensorType k = rule.key_value_type(q);
  rule.expect(1, k);
  rule.expect(2, k);
  rule.require_attention_context(q.shape[0], q.dtype);
  return {q, {wide(q.dtype), {q.shape[0], 2 * heads}}};
}

Types cached_attention_types(const ShapeRule& rule) {
  rule.inputs(4);
  const TensorType& q = rule.floating(0, 2);
  const TensorType k = rule.key_value_type(q);
  const TensorType table{k.dtype, {rule.dim(1, 0), k.shape[1]}};
  rule.expect(1, table);
  rule.expect(2, table);
  rule.expect(3, i32({q.shape[0], 2}));
  return {q};
}

Types attention_bias_types(const ShapeRule& rule) {
  const auto& [attention, to] = rule.attributes<AttentionBiasAttributes>();
  const std::int64_t n = rule.dim(1, 0);
  rule.require(attention.heads > 0 && is_floating(to), "has heads and a floating type");
  rule.require(attention.position_bias || attention.spatial_bias, "has a bias");
  rule.require(!attention.made_biases, "looks its biases up");
  rule.require_attention_context(n, to);
  return {{to, {n, attention.heads * attention_bias_keys(attention, n)}}};
}

// The output has the type of x.
Types elementwise_types(const ShapeRule& rule) {
  rule.inputs(1);
  return {rule.floating(0, 2)};
}

Types silu_multiply_types(const ShapeRule& rule) {
  rule.inputs(2);
  rule.expect(1, rule.floating(0, 2));
  return {rule.in(0)};
}

Types cast_types(const ShapeRule& rule) {
  const DType to = rule.attributes<CastAttributes>().to;
  rule.require(is_floating(to), "casts to a floating type");
  if (rule.count() == 1 && rule.in(0).shape.rank() == 2) return {{to, rule.floating(0, 2).shape}};
  rule.require(rule.count() > 0 && rule.node().row_count == kNoValue, "has no row count, with tensors of any rank");
  Types types;
  for (std::size_t i = 0; i < rule.count(); ++i) {
    rule.require(is_floating(rule.in(i).dtype) && rule.in(i).dtype == rule.in(0).dtype, "casts from one floating type");
    types.push_back({to, rule.in(i).shape});
  }
  return types;
}

IndexRange embedding_indices(const Graph& graph, const Node& node) {
  return {.input = 1, .low = 0, .end = graph.type(node.inputs[0]).shape[0]};
}

IndexRange spatial_embedding_indices(const Graph& graph, const Node& node) {
  return {.input = 4, .low = 0, .end = graph.type(node.inputs[0]).shape[0]};
}

IndexRange pack_rows_indices(const Graph& graph, const Node& node) {
  return {.input = 2, .low = -graph.type(node.inputs[1]).shape[0], .end = graph.type(node.inputs[0]).shape[0]};
}

// Every negative index means zeros.
IndexRange gather_rows_indices(const Graph& graph, const Node& node) {
  return {.input = 1, .low = std::numeric_limits<std::int32_t>::min(), .end = graph.type(node.inputs[0]).shape[0]};
}

// The rows after the real ones are zeros.
constexpr OutputRows kAllRows = {.count = 0};
constexpr OpFacts kForwardRows[] = {
    {.op = Op::kEmbedding,
     .name = "embedding",
     .types = embedding_types,
     .work = lookup_work,
     .takes_halves = true,
     .takes_codes = true,
     .indices = embedding_indices},
    {.op = Op::kSpatialEmbedding,
     .name = "spatial_embedding",
     .types = spatial_embedding_types,
     .work = lookup_work,
     .indices = spatial_embedding_indices},
    {.op = Op::kPatchify, .name = "patchify", .types = patchify_types, .work = element_work, .cheap_outputs = 1},
    {.op = Op::kVisualEmbedding, .name = "visual_embedding", .types = visual_embedding_types, .work = element_work},
    {.op = Op::kAdd,
     .name = "add",
     .types = add_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true},
    {.op = Op::kLinear,
     .name = "linear",
     .types = linear_types,
     .work = linear_work,
     .priced_like = Op::kLinear,
     .takes_halves = true,
     .takes_codes = true},
    {.op = Op::kLinearAdd,
     .name = "linear_add",
     .types = linear_add_types,
     .work = linear_work,
     .priced_like = Op::kLinear,
     .aliases = may_take(0, {2}),
     .takes_halves = true},
    {.op = Op::kLinearInt8,
     .name = "linear_int8",
     .types = linear_types,
     .work = linear_work,
     .priced_like = Op::kLinear,
     .takes_halves = true,
     .takes_codes = true},
    {.op = Op::kScale,
     .name = "scale",
     .types = scale_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true},
    {.op = Op::kMultiply,
     .name = "multiply",
     .types = multiply_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true},
    {.op = Op::kInverseRowNorms,
     .name = "inverse_row_norms",
     .types = inverse_row_norms_types,
     .work = row_norms_work,
     .priced_like = Op::kLinear,
     .takes_halves = true,
     .takes_codes = true},
    {.op = Op::kLayerNorm,
     .name = "layer_norm",
     .types = layer_norm_types,
     .work = element_work,
     .aliases = may_take(1, {0, LayerNormForm::kResidual}),  // normalized in place of x
     .takes_halves = true,
     .cheap_outputs = 1},  // from the kept normalized output: transform/recompute.h
    {.op = Op::kRmsNorm,
     .name = "rms_norm",
     .types = rms_norm_types,
     .work = element_work,
     .aliases = may_take(1, {0}),  // normalized in place of x
     .takes_halves = true},
    {.op = Op::kAffine,
     .name = "affine",
     .types = affine_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true,
     .cheap_outputs = 1},
    {.op = Op::kDropout,
     .name = "dropout",
     .types = dropout_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true,
     .cheap_outputs = 1},
    {.op = Op::kPackRows,
     .name = "pack_rows",
     .types = pack_rows_types,
     .work = element_work,
     .takes_halves = true,
     .indices = pack_rows_indices},
    {.op = Op::kGatherRows,
     .name = "gather_rows",
     .types = gather_rows_types,
     .work = element_work,
     .takes_halves = true,
     .cheap_outputs = 1,
     .indices = gather_rows_indices},
    {.op = Op::kTakeRows,
     .name = "take_rows",
     .types = take_rows_types,
     .work = element_work,
     .takes_halves = true,
     .rows = kAllRows},
    {.op = Op::kJoinRows, .name = "join_rows", .types = join_rows_types, .work = element_work, .takes_halves = true},
    {.op = Op::kConcatHeads, .name = "concat_heads", .types = heads_types, .work = element_work, .takes_halves = true},
    {.op = Op::kSplitHeads,
     .name = "split_heads",
     .types = heads_types,
     .work = element_work,
     .takes_halves = true,
     .cheap_outputs = 2},
    {.op = Op::kPairScores,
     .name = "pair_scores",
     .types = pair_scores_types,
     .work = linear_work,
     .priced_like = Op::kLinear},
    {.op = Op::kJoinPairs, .name = "join_pairs", .types = join_pairs_types, .work = element_work, .cheap_outputs = 1},
    {.op = Op::kRotaryTable, .name = "rotary_table", .types = rotary_table_types, .work = element_work},
    {.op = Op::kRotary,
     .name = "rotary",
     .types = rotary_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true},
    // The nodes that read its result are priced as if they still computed it themselves, which takes longer.
    {.op = Op::kAttentionBias,
     .name = "attention_bias",
     .types = attention_bias_types,
     .work = no_work,
     .takes_halves = true,
     .makes_infinities = true},
    {.op = Op::kAttention,
     .name = "attention",
     .types = attention_types,
     .work = attention_work,
     .priced_like = Op::kAttention,
     .takes_halves = true},
    {.op = Op::kCachedAttention,
     .name = "cached_attention",
     .types = cached_attention_types,
     .work = cached_attention_work,
     .priced_like = Op::kAttention,
     .takes_halves = true},
    {.op = Op::kGelu,
     .name = "gelu",
     .types = elementwise_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true,
     .cheap_outputs = 1},
    {.op = Op::kSiluMultiply,
     .name = "silu_multiply",
     .types = silu_multiply_types,
     .work = element_work,
     .aliases = may_take(0, {0, 1}),
     .takes_halves = true,
     .cheap_outputs = 1},
    {.op = Op::kTanh,
     .name = "tanh",
     .types = elementwise_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true},
    {.op = Op::kRelu,
     .name = "relu",
     .types = elementwise_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true},
    {.op = Op::kCast,
     .name = "cast",
     .types = cast_types,
     .work = element_work,
     .takes_halves = true,
     .cheap_outputs = 1},
};

}  // namespace

std::span<const OpFacts> forward_ops() { return kForwardRows; }

}  // namespace plimsoll
