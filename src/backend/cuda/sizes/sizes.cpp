#include "backend/cuda/sizes/sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/sizes/adafactor.h"
#include "backend/cuda/sizes/attention.h"
#include "backend/cuda/sizes/products.h"
#include "backend/cuda/sizes/row_gradients.h"
#include "backend/cuda/sizes/sums.h"
#include "base/bytes.h"

namespace plimsoll::cuda {

std::size_t kernel_scratch_bytes(const Graph& graph, const Node& node) {
  const auto input = [&](std::size_t i) -> const TensorType& { return graph.type(node.inputs[i]); };
  switch (node.op) {
    case Op::kLinear:
    case Op::kLinearAdd:
    case Op::kLinearInputGrad:
      return RowProductForm(graph, node).scratch.bytes();
    case Op::kLinearWeightGrad:
      return WeightGradientForm(graph, node).scratch.bytes();
    case Op::kAttention:
      attention_shape(graph, node);  // throws
      return 0;
    case Op::kAttentionGrad:
      return AttentionGradScratch(graph, node, attention_shape(graph, node)).bytes;
    case Op::kLayerNormGrad:
      return layer_norm_grad_scratch_bytes(input(0));
    case Op::kBiasGrad:
      return bias_grad_scratch_bytes(input(0));
    case Op::kCrossEntropy:
    case Op::kElementLoss:
      return cross_entropy_scratch_bytes(input(0));
    case Op::kSpanCrossEntropy:
      return span_cross_entropy_scratch_bytes(input(1));
    case Op::kSumSquares:
      return sum_squares_scratch_bytes(input(0));
    case Op::kGradientNorm:
      return kGradientNormScratchBytes;
    case Op::kEmbeddingGrad:
    case Op::kEmbeddingRowGrad:
      return EmbeddingGradScratch(input(0)).layout.bytes();
    case Op::kSpatialEmbeddingGrad:
      return SpatialGradScratch(input(0), std::get<SpatialAttributes>(node.attributes)).layout.bytes();
    case Op::kMergeRowGrads:
      return MergeScratch(input(2), input(5)).layout.bytes();
    case Op::kAdafactor:
    case Op::kAdafactorRows:
      return AdafactorScratch(AdafactorBlocks(graph, node)).layout.bytes();
    case Op::kAdd:
    case Op::kScale:
    case Op::kDropout:
    case Op::kGelu:
    case Op::kGeluGrad:
    case Op::kTanh:
    case Op::kTanhGrad:
    case Op::kRelu:
    case Op::kReluGrad:
    case Op::kPairScores:
    case Op::kPairScoresGrad:
    case Op::kCast:
    case Op::kAccumulate:
    case Op::kLayerNorm:
    case Op::kLayerNormAffine:
    case Op::kEmbedding:
    case Op::kSpatialEmbedding:
    case Op::kPatchify:
    case Op::kVisualEmbedding:
    case Op::kVisualEmbeddingGrad:
    case Op::kPackRows:
    case Op::kGatherRows:
    case Op::kConcatHeads:
    case Op::kSplitHeads:
    case Op::kAdamW:
    case Op::kAdamWRows:
    case Op::kFetchBegin:
    case Op::kFetchEnd:
    case Op::kStoreBegin:
    case Op::kStoreEnd:
      return 0;
  }
  check(false, [&] { return fmt::format("every op's scratch on a GPU is known; node '{}'", node.name); });
  return 0;
}

// Enough for the inputs of a step, which are a small part of what it needs, so that writing them seldom waits.
std::size_t copy_ring_bytes(std::size_t arena_bytes) {
  constexpr std::size_t kLeast = std::size_t{1} << 20, kMost = std::size_t{32} << 20;
  return arena_bytes == 0 ? 0 : std::clamp(round_up(arena_bytes / 128, kMiB), kLeast, kMost);
}

}  // namespace plimsoll::cuda
