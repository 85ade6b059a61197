// The bfloat16 form of attention.cpp's item: products are dot products of pairs, and probabilities are rounded to
// bfloat16 for the product with v. Scores, softmax and sums are in F32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention_items.h"
#include "backend/cpu/dot_product_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_dot.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/attention_pairs-inl.h"
#include "backend/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Does the same as forward_softmax in attention.cpp, but writes probabilities as pairs of keys.
template <bool kDropout>
HWY_NOINLINE void dot_softmax(const AttentionProblem& problem, const AttentionData& data, std::int64_t head,
                              const QueryTile& tile, std::int64_t first_key, std::int64_t keys,
                              const DotForwardScratch& scratch) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  for (std::int64_t i = 0; i < tile.columns; i += vector_lanes()) {
    const auto before = hn::Load(d, scratch.largest + i);
    const auto largest = hn::Max(hn::Load(d, scratch.tile_largest + i), before);
    const auto factor = simd_exp(d, hn::Sub(before, largest));
    auto sum = hn::Zero(d);
    [[maybe_unused]] KeptKeys kept(problem, data, head, tile, i);
    const auto bits_of = [&](std::int64_t j) HWY_ATTR {
      auto probability = simd_exp(d, hn::Sub(hn::Load(d, scratch.scores + j * kAttentionQueryTile + i), largest));
      sum = hn::Add(sum, probability);
      if constexpr (kDropout) probability = hn::IfThenElseZero(kept.kept(first_key + j), probability);
      return bfloat16_bits(d, probability);
    };
    for (std::int64_t j = 0; j < keys; j += 2) {
      auto word = bits_of(j);
      if (j + 1 < keys) word = hn::Or(word, hn::ShiftLeft<16>(bits_of(j + 1)));
      hn::Store(word, du, scratch.probabilities + j / 2 * kAttentionQueryTile + i);
    }
    for (std::int64_t p = (keys + 1) / 2; p < whole_pairs(keys); ++p) {
      hn::Store(hn::Zero(du), du, scratch.probabilities + p * kAttentionQueryTile + i);
    }
    hn::Store(largest, d, scratch.largest + i);
    hn::Store(hn::MulAdd(hn::Load(d, scratch.sums + i), factor, sum), d, scratch.sums + i);
    hn::Store(factor, d, scratch.factors + i);
  }
}

void dot_item(const AttentionProblem& problem, const AttentionData& data, void* output, float* log_sum_exp,
              std::int64_t sample, std::int64_t head, ScratchCursor cursor) {
  const DotForwardScratch scratch(cursor, problem);
  const std::int64_t begin = data.sample_offsets[sample], end = data.sample_offsets[sample + 1];
  const std::int64_t head_size = problem.head_size;
  const std::int64_t shared = head / problem.group;
  turn_sample(problem, data.v, shared, begin, end - begin, scratch.v_columns);
  HeadBiases biases(scratch.biases, problem, data, head);
  for (std::int64_t first = begin; first < end; first += kAttentionQueryTile) {
    const QueryTile tile = query_tile(begin, first, end);
    biases.start(tile);
    turn_pairs(problem, data.q, head, tile, scratch.queries);
    std::fill_n(scratch.largest, tile.columns, std::numeric_limits<float>::lowest());
    std::fill_n(scratch.sums, tile.columns, 0.0F);
    const std::int64_t seen = problem.keys_end(first + tile.count, end);
    for (std::int64_t key = begin; key < seen; key += kAttentionKeyTile) {
      const std::int64_t keys = std::min(seen - key, kAttentionKeyTile);
      dot_product_bf16(feature_pairs(problem.of_keys, data.k, shared, key), keys, head_size / 2, scratch.queries,
                       kAttentionQueryTile, scratch.scores, kAttentionQueryTile, tile.columns, DotSum::kStore);
      std::fill_n(scratch.tile_largest, tile.columns, std::numeric_limits<float>::lowest());
      biases.add_to(tile, key, keys, data.key_mask, problem.score_scale, scratch.scores, scratch.tile_largest);
      if (problem.dropout) {
        dot_softmax<true>(problem, data, head, tile, key, keys, scratch);
      } else {
        dot_softmax<false>(problem, data, head, tile, key, keys, scratch);
      }
      dot_product_bf16({scratch.v_columns + (key - begin), problem.turned_stride()}, head_size, whole_pairs(keys),
                       scratch.probabilities, kAttentionQueryTile, scratch.output, kAttentionQueryTile, tile.columns,
                       key == begin ? DotSum::kStore : DotSum::kAdd, scratch.factors);
    }
    store_outputs(problem, tile, scratch.output, scratch.sums, scratch.largest, head, output, log_sum_exp);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(dot_item);

AttentionItem attention_dot_item() { return HWY_DYNAMIC_DISPATCH(dot_item); }

}  // namespace plimsoll
#endif  // HWY_ONCE
