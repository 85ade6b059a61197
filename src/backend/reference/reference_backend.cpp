#include "backend/reference/reference_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "backend/collectives.h"
#include "backend/column_sums_kernel.h"
#include "backend/partial_sums_kernel.h"
#include "backend/reference/loop_kernel.h"
#include "backend/row_parts.h"
#include "backend/skippable_update.h"
#include "backend/transfers.h"
#include "backend/widened_kernel.h"
#include "base/bytes.h"
#include "graph/column_sums.h"
#include "graph/partial_sums.h"
#include "graph/update_form.h"

namespace plimsoll {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  explicit HostMemory(std::size_t bytes) : size_(bytes) {
    const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), kAlignmentBytes);
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, rounded));
    if (data_ == nullptr) {
      throw EnvironmentError({.what = "the machine does not give the memory that the plan needs",
                              .found = fmt::format("{} refused", format_bytes(bytes)),
                              .remedy = "free memory, or give a smaller --budget"});
    }
    std::memset(data_, 0, rounded);  // touches every page
  }
  ~HostMemory() override { std::free(data_); }
  std::span<std::byte> bytes() const override { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
};

// Returns the floating type in which the node computes: that of its first floating output, which is the type of its
// state if it changes one. sum_squares and gradient_norm, whose outputs have fixed types, use that of their first
// input; updates, whose parameter may be split, that of their gradient.
DType computing_type(const Graph& graph, const Node& node) {
  if (node.op == Op::kSumSquares || node.op == Op::kGradientNorm) return graph.type(node.inputs.front()).dtype;
  if (is_parameter_update(node.op)) return graph.type(node.inputs[update_form(graph, node).gradient_values()]).dtype;
  for (const ValueId output : node.outputs) {
    if (is_floating(graph.type(output).dtype)) return graph.type(output).dtype;
  }
  return DType::kF32;
}

}  // namespace

std::unique_ptr<Kernel> ReferenceBackend::prepare(const Graph& graph, const Node& node) {
  using namespace reference;
  if (is_transfer(node.op)) return make_transfer_kernel(node);
  if (is_collective(node.op)) return make_collective_kernel(node);
  if (node.op == Op::kSlice) return make_slice_kernel(node);
  if (node.op == Op::kTakeRows) return make_take_rows_kernel(graph, node);
  if (node.op == Op::kJoinRows) return make_join_rows_kernel(graph, node);
  if (node.op == Op::kPutRows) return make_put_rows_kernel(graph, node);
  if (node.op == Op::kAddPartialSums) return make_add_partial_sums_kernel(node);
  if (needs_widening(graph, node) && !is_parameter_update(node.op)) {
    return widened_kernel(graph, node, [this](const Graph& g, const Node& n) { return prepare(g, n); });
  }
  if (partial_sums(node) > 0) {
    return partial_sums_kernel(graph, node, [this](const Graph& g, const Node& n) { return prepare(g, n); });
  }
  if (!column_sums(node).empty()) {
    return column_sums_kernel(graph, node, [this](const Graph& g, const Node& n) { return prepare(g, n); });
  }
  const DType dtype = computing_type(graph, node);
  switch (node.op) {
    case Op::kEmbedding:
    case Op::kSpatialEmbedding:
    case Op::kEmbeddingGrad:
    case Op::kSpatialEmbeddingGrad:
      return make_embedding_kernel(graph, node, dtype);
    case Op::kPatchify:
    case Op::kVisualEmbedding:
    case Op::kVisualEmbeddingGrad:
    case Op::kPackRows:
    case Op::kGatherRows:
    case Op::kConcatHeads:
    case Op::kSplitHeads:
      return make_rows_kernel(graph, node, dtype);
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kScale:
    case Op::kDropout:
    case Op::kGelu:
    case Op::kTanh:
    case Op::kRelu:
    case Op::kSiluMultiply:
    case Op::kSiluMultiplyGrad:
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kTanhGrad:
    case Op::kCast:
    case Op::kAccumulate:
      return make_elementwise_kernel(graph, node, dtype);
    case Op::kPairScores:
    case Op::kPairScoresGrad:
    case Op::kJoinPairs:
    case Op::kJoinPairsGrad:
      return make_pairs_kernel(graph, node, dtype);
    case Op::kLinear:
    case Op::kLinearAdd:
    case Op::kLinearInt8:
    case Op::kLinearInputGrad:
    case Op::kLinearWeightGrad:
    case Op::kBiasGrad:
      return make_linear_kernel(graph, node, dtype);
    case Op::kLayerNorm:
    case Op::kRmsNorm:
    case Op::kRmsNormGrad:
    case Op::kAffine:
    case Op::kInverseRowNorms:
    case Op::kLayerNormGrad:
      return make_normalisation_kernel(graph, node, dtype);
    case Op::kRotaryTable:
    case Op::kRotary:
      return make_rotary_kernel(graph, node, dtype);
    case Op::kAttentionBias:
    case Op::kAttention:
    case Op::kAttentionGrad:
      return make_attention_kernel(graph, node, dtype);
    case Op::kCachedAttention:
      return make_cached_attention_kernel(graph, node, dtype);
    case Op::kLabelScores:
    case Op::kSoftmaxSums:
    case Op::kCrossEntropyPart:
    case Op::kCrossEntropy:
    case Op::kElementLoss:
    case Op::kSpanCrossEntropy:
    case Op::kSoftCrossEntropy:
      return make_loss_kernel(graph, node, dtype);
    case Op::kRelationLoss:
      return make_relation_kernel(graph, node, dtype);
    case Op::kContrastiveLoss:
    case Op::kCachedGradient:
      return make_contrastive_kernel(graph, node, dtype);
    case Op::kEmbeddingRowGrad:
    case Op::kMergeRowGrads:
      return make_row_gradient_kernel(graph, node, dtype);
    case Op::kSumSquares:
    case Op::kGradientNorm:
      return make_optimizer_kernel(graph, node, dtype);
    case Op::kAdamW:
    case Op::kAdamWRows:
      return std::make_unique<SkippableUpdate>(make_optimizer_kernel(graph, node, dtype));
    case Op::kAdafactor:
    case Op::kAdafactorRows:
      return std::make_unique<SkippableUpdate>(make_adafactor_kernel(graph, node, dtype));
    case Op::kFetchBegin:
    case Op::kFetchEnd:
    case Op::kStoreBegin:
    case Op::kStoreEnd:
    case Op::kReduceScatterBegin:
    case Op::kReduceScatterEnd:
    case Op::kAllGatherBegin:
    case Op::kAllGatherEnd:
    case Op::kGatherShardsBegin:
    case Op::kAllReduceBegin:
    case Op::kAllReduceEnd:
    case Op::kGatherRowsBegin:
    case Op::kGatherRowsEnd:
    case Op::kAllToAllRowsBegin:
    case Op::kAllToAllRowsEnd:
    case Op::kSlice:
    case Op::kAddPartialSums:
    case Op::kPutRows:
    case Op::kTakeRows:
    case Op::kJoinRows:
      break;  // above
  }
  check(false,
        [&] { return fmt::format("the reference backend knows every op of the catalogue; node '{}'", node.name); });
  return nullptr;
}

std::unique_ptr<DeviceMemory> ReferenceBackend::allocate(std::size_t bytes) {
  return std::make_unique<HostMemory>(bytes);
}

}  // namespace plimsoll
