#include "graph/op.h"

#include <array>

namespace plimsoll {

std::string_view op_name(Op op) {
  static constexpr std::array<std::string_view, kOpCount> kNames = {"embedding",
                                                                    "spatial_embedding",
                                                                    "patchify",
                                                                    "visual_embedding",
                                                                    "add",
                                                                    "linear",
                                                                    "linear_add",
                                                                    "scale",
                                                                    "layer_norm",
                                                                    "layer_norm_affine",
                                                                    "dropout",
                                                                    "pack_rows",
                                                                    "gather_rows",
                                                                    "concat_heads",
                                                                    "split_heads",
                                                                    "pair_scores",
                                                                    "attention",
                                                                    "gelu",
                                                                    "tanh",
                                                                    "relu",
                                                                    "cast",
                                                                    "cross_entropy",
                                                                    "element_loss",
                                                                    "span_cross_entropy",
                                                                    "embedding_grad",
                                                                    "embedding_row_grad",
                                                                    "spatial_embedding_grad",
                                                                    "visual_embedding_grad",
                                                                    "linear_input_grad",
                                                                    "linear_weight_grad",
                                                                    "bias_grad",
                                                                    "layer_norm_grad",
                                                                    "attention_grad",
                                                                    "pair_scores_grad",
                                                                    "relu_grad",
                                                                    "gelu_grad",
                                                                    "tanh_grad",
                                                                    "accumulate",
                                                                    "merge_row_grads",
                                                                    "sum_squares",
                                                                    "gradient_norm",
                                                                    "adamw",
                                                                    "adamw_rows",
                                                                    "adafactor",
                                                                    "adafactor_rows",
                                                                    "fetch_begin",
                                                                    "fetch_end",
                                                                    "store_begin",
                                                                    "store_end"};
  return kNames[static_cast<std::size_t>(op)];
}

std::vector<Alias> op_aliases(Op op, std::size_t input_count) {
  using enum Alias::Kind;
  switch (op) {
    case Op::kAdd:
      return {{0, 0, kMay}, {0, 1, kMay}};
    case Op::kLinearAdd:
      return {{0, 2, kMay}};
    case Op::kLayerNorm:
      return {{1, 0, kMay}};  // normalized in place of x
    case Op::kLayerNormAffine:
    case Op::kScale:
    case Op::kDropout:
    case Op::kGelu:
    case Op::kTanh:
    case Op::kRelu:
      return {{0, 0, kMay}};
    case Op::kCrossEntropy:
    case Op::kElementLoss:
    case Op::kSpanCrossEntropy:
      return {{1, 0, kMay}};  // the gradient in place of the logits
    case Op::kLayerNormGrad:
      return {{0, 0, kMay}, {0, 1, kMay}};
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kTanhGrad:
      return {{0, 0, kMay}, {0, 1, kMay}};
    case Op::kLinearWeightGrad:
      if (input_count == 4) return {{0, 2, kMust}};
      return {};
    case Op::kAccumulate:
      return {{0, 0, kMust}};
    case Op::kMergeRowGrads:
      return {{0, 0, kMust}, {1, 1, kMust}, {2, 2, kMust}};
    case Op::kAdamW:
    case Op::kAdamWRows:
    case Op::kAdafactor:
    case Op::kAdafactorRows: {
      // After the updated inputs come the gradient, as one tensor or as ids, count and rows, and three scalars.
      const std::size_t behind = op == Op::kAdamW || op == Op::kAdafactor ? 4 : 6;
      std::vector<Alias> aliases;
      for (std::size_t i = 0; i + behind < input_count; ++i) aliases.push_back({i, i, kMust});
      return aliases;
    }
    case Op::kFetchEnd:
    case Op::kStoreBegin: {
      std::vector<Alias> aliases;
      for (std::size_t i = 0; i < input_count; ++i) aliases.push_back({i, i, kMust});
      return aliases;
    }
    default:
      return {};
  }
}

}  // namespace plimsoll
