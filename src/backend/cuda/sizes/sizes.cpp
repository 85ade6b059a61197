#include "backend/cuda/sizes/sizes.h"

#include <algorithm>

#include "backend/cuda/sizes/adafactor.h"
#include "backend/cuda/sizes/attention.h"
#include "backend/cuda/sizes/int8.h"
#include "backend/cuda/sizes/products.h"
#include "backend/cuda/sizes/rank_rows.h"
#include "backend/cuda/sizes/relations.h"
#include "backend/cuda/sizes/row_gradients.h"
#include "backend/cuda/sizes/sums.h"
#include "base/bytes.h"
#include "graph/layer_norm_form.h"
#include "graph/op_table.h"
#include "graph/partial_sums.h"

namespace plimsoll::cuda {

namespace {

const TensorType& input(const Graph& graph, const Node& node, std::size_t i) { return graph.type(node.inputs[i]); }

std::size_t row_product(const Graph& graph, const Node& node) { return RowProductForm(graph, node).scratch.bytes(); }
std::size_t weight_gradient(const Graph& graph, const Node& node) {
  return WeightGradientForm(graph, node).scratch.bytes();
}
std::size_t attention(const Graph& graph, const Node& node) {
  return attention_bias_bytes(graph, node, attention_shape(graph, node));
}
std::size_t attention_grad(const Graph& graph, const Node& node) {
  return AttentionGradScratch(graph, node, attention_shape(graph, node)).bytes;
}
std::size_t layer_norm_grad(const Graph& graph, const Node& node) {
  if (partial_sums(node) > 0) return 0;
  return layer_norm_grad_scratch_bytes(input(graph, node, 0), layer_norm_form(node).column_sums);
}
std::size_t column_sums(const Graph& graph, const Node& node) {
  return summed_outputs(node) && partial_sums(node) == 0 ? column_sums_scratch_bytes(input(graph, node, 0)) : 0;
}
std::size_t cached_attention(const Graph& graph, const Node& node) {
  refuse_wide_heads(node, input(graph, node, 0).shape[1] / std::get<AttentionAttributes>(node.attributes).heads);
  return 0;
}
std::size_t loss(const Graph& graph, const Node& node) { return cross_entropy_scratch_bytes(input(graph, node, 0)); }
std::size_t contrastive_loss(const Graph& graph, const Node& node) {
  return ContrastiveScratch(input(graph, node, 0)).layout.bytes();
}
std::size_t cached_gradient(const Graph& graph, const Node& node) {
  return cross_entropy_scratch_bytes(input(graph, node, 0));
}
std::size_t span_cross_entropy(const Graph& graph, const Node& node) {
  return span_cross_entropy_scratch_bytes(input(graph, node, 1));
}
std::size_t linear_int8(const Graph& graph, const Node& node) {
  return Int8Scratch(input(graph, node, 0), input(graph, node, 1)).layout.bytes();
}
std::size_t relation_loss(const Graph& graph, const Node& node) {
  return RelationScratch(input(graph, node, 0), std::get<RelationAttributes>(node.attributes)).layout.bytes();
}
std::size_t sum_squares(const Graph& graph, const Node& node) { return SumSquaresScratch(graph, node).layout.bytes(); }
std::size_t gradient_norm(const Graph&, const Node&) { return kGradientNormScratchBytes; }
std::size_t embedding_grad(const Graph& graph, const Node& node) {
  return EmbeddingGradScratch(input(graph, node, 0)).layout.bytes();
}
std::size_t spatial_embedding_grad(const Graph& graph, const Node& node) {
  return SpatialGradScratch(input(graph, node, 0), std::get<SpatialAttributes>(node.attributes)).layout.bytes();
}
std::size_t merge_row_grads(const Graph& graph, const Node& node) {
  return MergeScratch(input(graph, node, 2), input(graph, node, 5)).layout.bytes();
}
std::size_t adafactor(const Graph& graph, const Node& node) {
  return AdafactorScratch(AdafactorBlocks(graph, node)).layout.bytes();
}
std::size_t all_to_all_rows(const Graph& graph, const Node& node) {
  return AllToAllScratch(graph, node).layout.bytes();
}

// Other ops' kernels need none.
using ScratchBytes = std::size_t (*)(const Graph&, const Node&);
constexpr OpTable<ScratchBytes> kScratchBytes = {
    {Op::kLinear, row_product},
    {Op::kLinearAdd, row_product},
    {Op::kLinearInt8, linear_int8},
    {Op::kLinearInputGrad, row_product},
    {Op::kLinearWeightGrad, weight_gradient},
    {Op::kAttention, attention},
    {Op::kCachedAttention, cached_attention},
    {Op::kAttentionGrad, attention_grad},
    {Op::kLayerNormGrad, layer_norm_grad},
    {Op::kRmsNormGrad, column_sums},
    {Op::kBiasGrad, column_sums},
    {Op::kGeluGrad, column_sums},
    {Op::kCrossEntropy, loss},
    {Op::kElementLoss, loss},
    {Op::kSpanCrossEntropy, span_cross_entropy},
    {Op::kSoftCrossEntropy, loss},
    {Op::kRelationLoss, relation_loss},
    {Op::kContrastiveLoss, contrastive_loss},
    {Op::kCachedGradient, cached_gradient},
    {Op::kSumSquares, sum_squares},
    {Op::kGradientNorm, gradient_norm},
    {Op::kEmbeddingGrad, embedding_grad},
    {Op::kEmbeddingRowGrad, embedding_grad},
    {Op::kSpatialEmbeddingGrad, spatial_embedding_grad},
    {Op::kMergeRowGrads, merge_row_grads},
    {Op::kAdafactor, adafactor},
    {Op::kAdafactorRows, adafactor},
    {Op::kAllToAllRowsBegin, all_to_all_rows},
};

}  // namespace

std::size_t kernel_scratch_bytes(const Graph& graph, const Node& node) {
  const ScratchBytes bytes = kScratchBytes[node.op];
  return bytes == nullptr ? 0 : bytes(graph, node);
}

// Enough for the inputs of a step, which are a small part of what it needs, so that writing them seldom waits.
std::size_t copy_ring_bytes(std::size_t arena_bytes) {
  constexpr std::size_t kLeast = std::size_t{1} << 20, kMost = std::size_t{32} << 20;
  return arena_bytes == 0 ? 0 : std::clamp(round_up(arena_bytes / 128, kMiB), kLeast, kMost);
}

}  // namespace plimsoll::cuda
