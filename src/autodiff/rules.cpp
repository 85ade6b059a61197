// One rule per op. The step must keep what a rule reads from the forward pass: layer norm its normalized output, GELU
// its input, linear its input, attention q, k, v, output and log-sum-exp; for dropout and sums, nothing.
#include "autodiff/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "graph/attention_form.h"
#include "graph/layer_norm_form.h"
#include "graph/op_table.h"

namespace plimsoll {
namespace {

using Rule = void (*)(BackwardWalk&, const Node&);

ValueId upstream(const BackwardWalk& walk, const Node& node) { return walk.gradient_of(node.outputs[0]); }

// True if `gradient` is that of a head's weight, has type `dtype`, and is not read by anything else.
bool is_heads(const BackwardWalk& walk, ValueId gradient, DType dtype) {
  const NodeId producer = walk.graph().value(gradient).producer;
  return producer != kNoNode && walk.graph().node(producer).op == Op::kLinearWeightGrad &&
         walk.graph().type(gradient).dtype == dtype;
}

// Returns a gradient in which many rows are summed; one of halves is widened to the type of the sums.
ValueId widened(BackwardWalk& walk, const Node& node, ValueId gradient) {
  const DType dtype = walk.graph().type(gradient).dtype;
  if (!is_half(dtype)) return gradient;
  return walk.append(node, Op::kCast, {gradient}, CastAttributes{wide(dtype)})[0];
}

void embedding_rule(BackwardWalk& walk, const Node& node) {
  if (!walk.needs(node.inputs[0])) return;
  const auto& attributes = std::get<EmbeddingAttributes>(node.attributes);
  const ValueId dy = widened(walk, node, upstream(walk, node));
  // A table that is also a language model's head has a dense gradient already.
  const bool dense = walk.gradient_of(node.inputs[0]) != kNoValue;
  if (attributes.row_gradient && !dense) {
    const auto outputs = walk.append(node, Op::kEmbeddingRowGrad, {dy, node.inputs[1]}, attributes);
    walk.contribute_rows(node.inputs[0], {.row_ids = outputs[0], .row_count = outputs[1], .rows = outputs[2]});
    return;
  }
  EmbeddingAttributes whole = attributes;
  whole.row_gradient = false;
  if (dense && is_heads(walk, walk.gradient_of(node.inputs[0]), walk.graph().type(dy).dtype)) {
    const ValueId so_far = walk.gradient_of(node.inputs[0]);
    walk.grow(node.inputs[0], walk.append(node, Op::kEmbeddingGrad, {dy, node.inputs[1], so_far}, whole)[0]);
    return;
  }
  const auto outputs = walk.append(node, Op::kEmbeddingGrad, {dy, node.inputs[1]}, whole);
  walk.contribute(node.inputs[0], outputs[0], kNoValue);
}

void spatial_embedding_rule(BackwardWalk& walk, const Node& node) {
  const auto outputs =
      walk.append(node, Op::kSpatialEmbeddingGrad, {upstream(walk, node), node.inputs[4]}, node.attributes);
  for (std::size_t i = 0; i < 4; ++i) walk.contribute(node.inputs[i], outputs[i], kNoValue);
}

void visual_embedding_rule(BackwardWalk& walk, const Node& node) {
  const VisualAttributes attributes{.patches = walk.graph().type(node.inputs[2]).shape[1] - 1};
  const auto outputs = walk.append(node, Op::kVisualEmbeddingGrad, {upstream(walk, node)}, attributes);
  for (std::size_t i = 0; i < 3; ++i) walk.contribute(node.inputs[i], outputs[i], kNoValue);
}

void add_rule(BackwardWalk& walk, const Node& node) {
  const ValueId dy = upstream(walk, node);
  walk.contribute(node.inputs[0], dy, node.row_count);
  walk.contribute(node.inputs[1], dy, node.row_count);
}

void linear_rule(BackwardWalk& walk, const Node& node) {
  const ValueId dy = upstream(walk, node);
  if (walk.needs(node.inputs[1])) {
    walk.contribute(node.inputs[1], walk.append(node, Op::kLinearWeightGrad, {dy, node.inputs[0]})[0], kNoValue);
  }
  if (node.inputs.size() == 3 && walk.needs(node.inputs[2]) && !walk.has_bias_gradient(node.outputs[0])) {
    walk.contribute(node.inputs[2], walk.append(node, Op::kBiasGrad, {dy})[0], kNoValue);
  }
  if (walk.needs(node.inputs[0])) {
    walk.contribute(node.inputs[0], walk.append(node, Op::kLinearInputGrad, {dy, node.inputs[1]})[0], node.row_count);
  }
}

void linear_add_rule(BackwardWalk& walk, const Node& node) {
  const ValueId dy = upstream(walk, node);
  if (walk.needs(node.inputs[1])) {
    walk.contribute(node.inputs[1], walk.append(node, Op::kLinearWeightGrad, {dy, node.inputs[0]})[0], kNoValue);
  }
  if (walk.needs(node.inputs[0])) {
    walk.contribute(node.inputs[0], walk.append(node, Op::kLinearInputGrad, {dy, node.inputs[1]})[0], node.row_count);
  }
  walk.contribute(node.inputs[2], dy, node.row_count);
}

void scale_rule(BackwardWalk& walk, const Node& node) {
  walk.contribute(node.inputs[0], walk.append(node, Op::kScale, {upstream(walk, node)}, node.attributes)[0],
                  node.row_count);
}

void multiply_rule(BackwardWalk& walk, const Node& node) {
  const ValueId dy = upstream(walk, node);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!walk.needs(node.inputs[i])) continue;
    walk.contribute(node.inputs[i], walk.append(node, Op::kMultiply, {dy, node.inputs[1 - i]})[0], node.row_count);
  }
}

// gamma's gradient is the sum over rows of dy x, like a bias's of dy.
void affine_rule(BackwardWalk& walk, const Node& node) {
  const ValueId dy = upstream(walk, node);
  const ValueId x = node.inputs[0], gamma = node.inputs[1];
  if (walk.needs(gamma)) {
    const ValueId product = walk.append(node, Op::kMultiply, {dy, x})[0];
    walk.contribute(gamma, walk.append(node, Op::kBiasGrad, {product})[0], kNoValue);
  }
  if (node.inputs.size() == 3 && walk.needs(node.inputs[2])) {
    walk.contribute(node.inputs[2], walk.append(node, Op::kBiasGrad, {dy})[0], kNoValue);
  }
  if (walk.needs(x)) walk.contribute(x, walk.append(node, Op::kAffine, {dy, gamma})[0], node.row_count);
}

void layer_norm_rule(BackwardWalk& walk, const Node& node) {
  const LayerNormForm forward = layer_norm_form(node);
  std::vector<ValueId> inputs = {upstream(walk, node), node.outputs[1], node.outputs[2], node.inputs[1]};
  if (forward.drops) inputs.insert(inputs.end(), node.inputs.begin() + LayerNormForm::kRowKeys, node.inputs.end());
  auto attributes = std::get<LayerNormAttributes>(node.attributes);
  const ValueId x = node.inputs[0];
  attributes.column_sums = walk.bias_behind(x, node.row_count) != kNoValue;
  const auto outputs = walk.append(node, Op::kLayerNormGrad, std::move(inputs), attributes);
  const LayerNormForm form = layer_norm_form(walk.graph().node(walk.graph().value(outputs[0]).producer));
  walk.contribute(x, outputs[form.of_x()], node.row_count);
  if (forward.has_residual) walk.contribute(node.inputs[LayerNormForm::kResidual], outputs[0], node.row_count);
  walk.contribute(node.inputs[1], outputs[form.dgamma()], kNoValue);
  walk.contribute(node.inputs[2], outputs[form.dbeta()], kNoValue);
  if (form.column_sums) walk.contribute_bias(x, outputs[form.sums()]);
}

void dropout_rule(BackwardWalk& walk, const Node& node) {
  if (!walk.needs(node.inputs[0])) return;
  auto attributes = std::get<DropoutAttributes>(node.attributes);
  if (attributes.to) attributes.to = walk.graph().type(node.inputs[0]).dtype;
  const auto outputs =
      walk.append(node, Op::kDropout, {upstream(walk, node), node.inputs[1], node.inputs[2]}, attributes);
  walk.contribute(node.inputs[0], outputs[0], node.row_count);
}

// The rule for the rows from one of pack_rows' sources: gathers their gradients back with the source's index input.
void gather_rows_rule(BackwardWalk& walk, const Node& node) {
  if (!walk.needs(node.inputs[0])) return;
  Node scatter = node;
  // The gradient has the input's rows, all of which are written: zeros for those that no output row came from.
  scatter.row_count = kNoValue;
  const auto outputs = walk.append(scatter, Op::kGatherRows, {upstream(walk, node), node.inputs[2], node.inputs[1]});
  walk.contribute(node.inputs[0], outputs[0], kNoValue);
}

void pack_rows_rule(BackwardWalk& walk, const Node& node) {
  const ValueId dy = upstream(walk, node);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!walk.needs(node.inputs[i])) continue;
    Node source = node;
    source.row_count = kNoValue;
    const auto outputs = walk.append(source, Op::kGatherRows, {dy, node.inputs[3 + i], node.inputs[2]});
    walk.contribute(node.inputs[i], outputs[0], kNoValue);
  }
}

void concat_heads_rule(BackwardWalk& walk, const Node& node) {
  auto attributes = std::get<HeadsAttributes>(node.attributes);
  attributes.second = attributes.second && walk.needs(node.inputs[1]);
  const auto outputs = walk.append(node, Op::kSplitHeads, {upstream(walk, node)}, attributes);
  for (std::size_t i = 0; i < outputs.size(); ++i) walk.contribute(node.inputs[i], outputs[i], node.row_count);
}

void split_heads_rule(BackwardWalk& walk, const Node& node) {
  if (!walk.needs(node.inputs[0])) return;
  auto attributes = std::get<HeadsAttributes>(node.attributes);
  check(upstream(walk, node) != kNoValue, "the loss depends on the first part of split heads");
  std::vector<ValueId> inputs = {upstream(walk, node)};
  if (attributes.second) inputs.push_back(walk.gradient_of(node.outputs[1]));
  attributes.second = inputs.size() == 2 && inputs[1] != kNoValue;
  if (!attributes.second) inputs.resize(1);
  const auto outputs = walk.append(node, Op::kConcatHeads, std::move(inputs), attributes);
  walk.contribute(node.inputs[0], outputs[0], node.row_count);
}

void attention_rule(BackwardWalk& walk, const Node& node) {
  const AttentionForm form = attention_form(node);
  AttentionAttributes attributes = std::get<AttentionAttributes>(node.attributes);
  std::vector<ValueId> tables;
  for (std::size_t bias = 0; bias < AttentionForm::kBiases; ++bias) {
    if (form.has_bias[bias]) tables.push_back(node.inputs[form.table(bias)]);
  }
  attributes.table_gradients = std::ranges::any_of(tables, [&](ValueId table) { return walk.needs(table); });
  attributes.column_sums = key_value_heads(attributes) == attributes.heads;
  for (std::size_t i = 0; i < 3; ++i) {
    if (walk.bias_behind(node.inputs[i], node.row_count) == kNoValue) attributes.column_sums = false;
  }
  std::vector<ValueId> inputs = {upstream(walk, node), node.inputs[0],  node.inputs[1],
                                 node.inputs[2],       node.outputs[0], node.outputs[1]};
  inputs.insert(inputs.end(), node.inputs.begin() + 3, node.inputs.end());
  const auto outputs = walk.append(node, Op::kAttentionGrad, std::move(inputs), attributes);
  for (std::size_t i = 0; i < 3; ++i) walk.contribute(node.inputs[i], outputs[i], node.row_count);
  for (std::size_t i = 0; attributes.column_sums && i < 3; ++i) {
    walk.contribute_bias(node.inputs[i], outputs[outputs.size() - 3 + i]);
  }
  if (!attributes.table_gradients) return;
  for (std::size_t i = 0; i < tables.size(); ++i) walk.contribute(tables[i], outputs[3 + i], kNoValue);
}

void gelu_rule(BackwardWalk& walk, const Node& node) {
  const ValueId x = node.inputs[0];
  const GeluAttributes attributes{.by_tanh = gelu_by_tanh(node.attributes),
                                  .column_sums = walk.bias_behind(x, node.row_count) != kNoValue};
  const auto outputs = walk.append(node, Op::kGeluGrad, {upstream(walk, node), x}, attributes);
  walk.contribute(x, outputs[0], node.row_count);
  if (attributes.column_sums) walk.contribute_bias(x, outputs[1]);
}

void rms_norm_rule(BackwardWalk& walk, const Node& node) {
  const auto outputs =
      walk.append(node, Op::kRmsNormGrad, {upstream(walk, node), node.outputs[1], node.outputs[2], node.inputs[1]},
                  node.attributes);
  walk.contribute(node.inputs[0], outputs[0], node.row_count);
  walk.contribute(node.inputs[1], outputs[1], kNoValue);
}

void rotary_rule(BackwardWalk& walk, const Node& node) {
  auto attributes = std::get<RotaryAttributes>(node.attributes);
  attributes.back = !attributes.back;
  const auto outputs = walk.append(node, Op::kRotary, {upstream(walk, node), node.inputs[1]}, attributes);
  walk.contribute(node.inputs[0], outputs[0], node.row_count);
}

void silu_multiply_rule(BackwardWalk& walk, const Node& node) {
  const auto outputs = walk.append(node, Op::kSiluMultiplyGrad, {upstream(walk, node), node.inputs[0], node.inputs[1]});
  for (std::size_t i = 0; i < 2; ++i) walk.contribute(node.inputs[i], outputs[i], node.row_count);
}

void relu_rule(BackwardWalk& walk, const Node& node) {
  walk.contribute(node.inputs[0], walk.append(node, Op::kReluGrad, {upstream(walk, node), node.outputs[0]})[0],
                  node.row_count);
}

void pair_scores_rule(BackwardWalk& walk, const Node& node) {
  const auto outputs =
      walk.append(node, Op::kPairScoresGrad, {upstream(walk, node), node.inputs[0], node.inputs[1]}, node.attributes);
  for (std::size_t i = 0; i < outputs.size(); ++i) walk.contribute(node.inputs[i], outputs[i], kNoValue);
}

void join_pairs_rule(BackwardWalk& walk, const Node& node) {
  const auto outputs = walk.append(node, Op::kJoinPairsGrad, {upstream(walk, node), node.inputs[0]}, node.attributes);
  walk.contribute(node.inputs[0], outputs[0], node.row_count);
}

void tanh_rule(BackwardWalk& walk, const Node& node) {
  walk.contribute(node.inputs[0], walk.append(node, Op::kTanhGrad, {upstream(walk, node), node.outputs[0]})[0],
                  node.row_count);
}

void cast_rule(BackwardWalk& walk, const Node& node) {
  const CastAttributes back{walk.graph().type(node.inputs[0]).dtype};
  walk.contribute(node.inputs[0], walk.append(node, Op::kCast, {upstream(walk, node)}, back)[0], node.row_count);
}

constexpr OpTable<Rule> kRules = {
    {Op::kEmbedding, embedding_rule},
    {Op::kSpatialEmbedding, spatial_embedding_rule},
    {Op::kVisualEmbedding, visual_embedding_rule},
    {Op::kAdd, add_rule},
    {Op::kLinear, linear_rule},
    {Op::kLinearAdd, linear_add_rule},
    {Op::kScale, scale_rule},
    {Op::kMultiply, multiply_rule},
    {Op::kLayerNorm, layer_norm_rule},
    {Op::kRmsNorm, rms_norm_rule},
    {Op::kAffine, affine_rule},
    {Op::kDropout, dropout_rule},
    {Op::kPackRows, pack_rows_rule},
    {Op::kGatherRows, gather_rows_rule},
    {Op::kConcatHeads, concat_heads_rule},
    {Op::kSplitHeads, split_heads_rule},
    {Op::kPairScores, pair_scores_rule},
    {Op::kJoinPairs, join_pairs_rule},
    {Op::kRotary, rotary_rule},
    {Op::kAttention, attention_rule},
    {Op::kGelu, gelu_rule},
    {Op::kSiluMultiply, silu_multiply_rule},
    {Op::kTanh, tanh_rule},
    {Op::kRelu, relu_rule},
    {Op::kCast, cast_rule},
};

}  // namespace

bool is_constant(Op op) { return op == Op::kInverseRowNorms || op == Op::kAttentionBias || op == Op::kRotaryTable; }

void apply_rule(BackwardWalk& walk, const Node& node) {
  const Rule rule = kRules[node.op];
  check(rule != nullptr,
        [&] { return fmt::format("op {} has no gradient rule (node '{}')", op_name(node.op), node.name); });
  rule(walk, node);
}

}  // namespace plimsoll
