// The largest differences allowed between a backend's F32 result and the reference's, by op, in one table.
//
// |a - b| <= relative * |b| + max(absolute * (the largest magnitude in the reference's tensor), floor). Integers must
// be equal, and so must infinities. An F32 rounding is 6e-8 of a value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "graph/op.h"

namespace plimsoll::test {

struct Tolerance {
  double relative = 0, absolute = 0;
  std::string_view reason;
  double floor = 0;  // for tensors that may cancel to nothing; the cases' values are about 1
};

// For nodes with halves: both sides compute in F32, where tolerance_of applies, and round once when they store. `rows`:
// those of the first input, over which gradients of weights are sums.
inline Tolerance half_tolerance_of(Op op, DType half, DType output, std::int64_t rows) {
  // A value may be off by one unit in the last place.
  const double unit = half == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  switch (op) {
    case Op::kPackRows:
    case Op::kGatherRows:
    case Op::kCast:
    case Op::kRelu:
    case Op::kReluGrad:
      return {0, 0, "copies, rounded to nearest by everybody"};
    case Op::kLinearWeightGrad:
      // Tensor cores cut the sum off after each 16 products (Fasi, Higham, Mikaitis, Pranesh 2021), half a unit of a
      // float each on average, always toward 0.
      return {0, 1e-6 + static_cast<double>(rows) / 16 * 0x1p-24,
              "float sums of products of the same halves, never rounded to a half, but cut off each 16 rows"};
    case Op::kBiasGrad:
      return {0, 1e-6, "float sums of the same halves, never rounded to a half"};
    case Op::kLinearInt8:
      return {unit, unit / 8, "a unit in the last place where a tie falls the other way"};
    case Op::kLinear:
    case Op::kLinearInputGrad:
      return {unit, unit / 4, "a coded weight, or a bias, is rounded to the half for the product"};
    case Op::kCachedAttention:
    case Op::kAttention:
      return {unit, unit / 2, "probabilities may be rounded to the half for the next product"};
    case Op::kAttentionGrad:
      return {unit, unit,
              "up to half a unit each: the forward's probabilities and then its outputs, which this reads, and the "
              "gradients of scores for the next product",
              3 * 6e-8};
    default:
      break;
  }
  if (is_half(output)) return {unit, unit / 8, "a unit in the last place where a tie falls the other way"};
  return {unit / 4, unit / 4, "sums, some of which cancel, over halves that may differ by a unit in the last place"};
}

// For products of halves with a weight in F32. Rounded to the half, it puts each product off by up to half a unit, a
// fifth on average; they add up at random, and of thousands of elements, whose largest is three times the usual, one is
// off by four times the average.
inline Tolerance rounded_weight_tolerance(DType half) {
  const double unit = half == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  return {unit, unit / 2, "a sum of products with a weight that is rounded to the half"};
}

// For the output in halves of a layer norm with a residual. Near zero is what is near the mean: a unit of it, at a mean
// as large as the spread, is a third of one of the largest element, which is three spreads from the mean.
inline Tolerance rounded_sum_tolerance(DType half) {
  const double unit = half == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  return {unit, unit / 3,
          "x and its residual are rounded to the half before the norm, where a tie may fall either way"};
}

// For a weight's gradient in F32, a sum over `rows`: rounding errors, of up to 6e-8 of what is summed so far, walk at
// random (Higham and Mary 2019), and cuBLAS adds one row after the other.
inline Tolerance weight_grad_tolerance(std::int64_t rows) {
  return {0, std::max(6e-7, 6e-8 * std::sqrt(static_cast<double>(rows))), "a float sum over the rows, in any order"};
}

// For products with a weight in 8 or 4 bits.
inline Tolerance coded_product_tolerance() {
  return {0, 1e-6, "sums of up to 300 products of values that block scales have spread: half as long a walk again"};
}

// For GELU by tanh, and its gradient.
inline Tolerance tanh_gelu_tolerance() {
  return {1e-6, 2.4e-7, "an exponential, whose argument is rounded three times and up to 90 before it is 0"};
}

inline Tolerance tolerance_of(Op op) {
  constexpr double kRounding = 6e-8;
  switch (op) {
    case Op::kEmbedding:
    case Op::kPatchify:
    case Op::kPackRows:
    case Op::kGatherRows:
    case Op::kTakeRows:
    case Op::kJoinRows:
    case Op::kFetchBegin:
    case Op::kFetchEnd:
    case Op::kStoreBegin:
    case Op::kStoreEnd:
    case Op::kAllGatherBegin:
    case Op::kAllGatherEnd:
    case Op::kGatherShardsBegin:
    case Op::kGatherRowsBegin:
    case Op::kGatherRowsEnd:
    case Op::kAllToAllRowsBegin:
    case Op::kAllToAllRowsEnd:
    case Op::kReduceScatterBegin:
    case Op::kAllReduceBegin:
    case Op::kSlice:
    case Op::kCast:
    case Op::kRelu:
    case Op::kReluGrad:
    case Op::kPutRows:
      return {0, 0, "copies, rounded to nearest by everybody"};
    case Op::kAdd:
    case Op::kAccumulate:
    case Op::kMergeRowGrads:
    case Op::kReduceScatterEnd:
    case Op::kAllReduceEnd:
    case Op::kVisualEmbedding:
      return {0, 0, "one addition, rounded once by everybody"};
    case Op::kSpatialEmbedding:
      return {0, 2 * kRounding, "a float sum of six rows"};
    case Op::kAttentionBias:
      return {0, 2 * kRounding, "a float sum of three elements"};
    case Op::kMultiply:
    case Op::kScale:
    case Op::kConcatHeads:
    case Op::kSplitHeads:
      return {2 * kRounding, 0, "one product; the factor may be rounded first"};
    case Op::kDropout:
      return {2 * kRounding, 0, "one product; the scale may be rounded otherwise. A wrong mask is an error of 1"};
    case Op::kAffine:
      return {2 * kRounding, 2 * kRounding, "a product and a sum, fused or not"};
    case Op::kEmbeddingGrad:
    case Op::kEmbeddingRowGrad:
    case Op::kSpatialEmbeddingGrad:
    case Op::kVisualEmbeddingGrad:
      return {0, 5e-7, "float sums of a few dozen rows, in any order"};
    case Op::kPairScores:
    case Op::kPairScoresGrad:
    case Op::kLinear:
    case Op::kLinearAdd:
    case Op::kLinearInputGrad:
    case Op::kLinearWeightGrad:
    case Op::kBiasGrad:
      return {0, 6e-7, "float sums of up to 600 products, in any order"};
    case Op::kLinearInt8:
      return {5 * kRounding, 2 * kRounding, "an exact sum, then three products of floats and the bias"};
    case Op::kRelationLoss:
      return {0, 4e-6, "as attention's gradient"};
    case Op::kInverseRowNorms:
      return {5e-7, 0, "a float sum of squares, in any order; each is a sum of a few products"};
    case Op::kRotaryTable:
      return {0, 2 * kRounding, "a cosine or sine of the same float"};
    case Op::kRotary:
      return {0, 6 * kRounding, "two products and a sum, fused or not, with a cosine and a sine two roundings off"};
    case Op::kRmsNorm:
    case Op::kRmsNormGrad:
      return {0, 5e-7, "float sums over a row"};
    case Op::kLayerNorm:
    case Op::kLayerNormGrad:
      return {0, 5e-7, "float sums over a row; the mean, up to ten times the spread, in float too"};
    case Op::kCachedAttention:
    case Op::kAttention:
      return {0, 4e-6, "exponentials of float scores up to 100, summed online in tiles"};
    case Op::kAttentionGrad:
      return {0, 4e-6, "as attention; of a single key, two products of do that are rounded otherwise cancel",
              3 * kRounding};
    case Op::kGelu:
    case Op::kGeluGrad:
      return {4e-7, 2 * kRounding, "erf to a few roundings; 1 + erf cancels for x far below 0"};
    case Op::kSiluMultiply:
    case Op::kSiluMultiplyGrad:
      return {6e-7, 2 * kRounding, "an exponential, a quotient and three products, to a few roundings each"};
    case Op::kTanh:
    case Op::kTanhGrad:
      return {4e-7, 3 * kRounding, "tanh to a few roundings; 1 - y*y cancels where tanh saturates"};
    case Op::kLabelScores:
    case Op::kSoftmaxSums:
    case Op::kCrossEntropyPart:
    case Op::kCrossEntropy:
    case Op::kElementLoss:
    case Op::kSpanCrossEntropy:
    case Op::kSoftCrossEntropy:
      return {3e-7, 3e-7, "exponential and logarithm to a few roundings, then a difference from 1"};
    case Op::kJoinPairs:
    case Op::kJoinPairsGrad:
      return {3 * kRounding, 2 * kRounding, "a difference, a product, and a sum of three, fused or not"};
    case Op::kContrastiveLoss:
      return {5e-6, 5e-6, "exponentials of float scores up to 20, each a float sum of up to 130 products"};
    case Op::kCachedGradient:
      return {2e-7, 2e-7, "copies, and a sum in double, rounded once"};
    case Op::kAddPartialSums:
      return {0, 1e-6, "sums in double, in any order, rounded once"};
    case Op::kSumSquares:
      return {1e-12, 0, "sums in double of squares, which do not cancel, in any order"};
    case Op::kGradientNorm:
      return {2 * kRounding, 0, "a square root and a quotient in double, rounded once"};
    case Op::kAdamW:
    case Op::kAdamWRows:
      return {2 * kRounding, 2 * kRounding, "five float operations an element, fused or not"};
    case Op::kAdafactor:
    case Op::kAdafactorRows:
      return {3 * kRounding, 2 * kRounding, "means of squares, two roots and eight float operations an element"};
  }
  return {};
}

// For products of floats that sum over `count` columns: where these are more than others have, errors walk as far.
inline Tolerance product_tolerance(std::int64_t count) {
  constexpr std::int64_t kUsual = 600;
  const Tolerance usual = tolerance_of(Op::kLinear);
  if (count <= kUsual) return usual;
  return {0, weight_grad_tolerance(count).absolute, "a float sum over the columns, in any order"};
}

}  // namespace plimsoll::test
