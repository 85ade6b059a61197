// The bfloat16 form of attention_grad.cpp's item: its five products are dot products of pairs; probabilities and
// gradients of scores are rounded to bfloat16 for them. Softmax and all sums are in F32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention_items.h"
#include "backend/cpu/dot_product_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_dot_grad.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/attention_bias_sums-inl.h"
#include "backend/cpu/attention_pairs-inl.h"
#include "backend/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Computes from scores and dp: p m as rows, and ds / sqrt(d) as rows and as pairs of keys. With `table_gradients`,
// dscores become ds.
template <bool kDropout>
HWY_NOINLINE void dot_softmax_grad(const AttentionProblem& problem, const AttentionData& data, std::int64_t head,
                                   const QueryTile& tile, std::int64_t first_key, std::int64_t keys,
                                   bool table_gradients, const DotBackwardScratch& scratch) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint16_t, decltype(d)> du16;
  const auto score_scale = hn::Set(d, problem.score_scale);
  [[maybe_unused]] const auto dropout_scale = hn::Set(d, problem.dropout_scale);
  for (std::int64_t i = 0; i < tile.columns; i += vector_lanes()) {
    const auto log_sum_exp = hn::Load(d, scratch.log_sum_exp + i);
    const auto log_sum_rest = hn::Load(d, scratch.log_sum_rest + i);
    const auto output_dot_doutput = hn::Load(d, scratch.output_dot_doutput + i);
    [[maybe_unused]] KeptKeys kept(problem, data, head, tile, i);
    // Stores the rows of one key and returns the bits of its ds / sqrt(d).
    const auto key_bits = [&](std::int64_t j) HWY_ATTR {
      const std::int64_t at = j * kAttentionQueryTile + i;
      const auto probability =
          simd_exp(d, hn::Sub(hn::Sub(hn::Load(d, scratch.scores + at), log_sum_exp), log_sum_rest));
      auto dprobability = hn::Load(d, scratch.dscores + at);
      auto masked = probability;
      if constexpr (kDropout) {
        const auto scale = hn::IfThenElseZero(kept.kept(first_key + j), dropout_scale);
        masked = hn::Mul(probability, scale);
        dprobability = hn::Mul(dprobability, scale);
      }
      hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, bfloat16_bits(d, masked))), du16, scratch.probability_rows + at);
      const auto dscore = hn::Mul(probability, hn::Sub(dprobability, output_dot_doutput));
      if (table_gradients) hn::Store(dscore, d, scratch.dscores + at);
      const auto bits = bfloat16_bits(d, hn::Mul(dscore, score_scale));
      hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, bits)), du16, scratch.dscore_rows + at);
      return bits;
    };
    for (std::int64_t j = 0; j < keys; j += 2) {
      auto word = key_bits(j);
      if (j + 1 < keys) word = hn::Or(word, hn::ShiftLeft<16>(key_bits(j + 1)));
      hn::Store(word, du, scratch.dscore_pairs + j / 2 * kAttentionQueryTile + i);
    }
    for (std::int64_t p = (keys + 1) / 2; p < whole_pairs(keys); ++p) {
      hn::Store(hn::Zero(du), du, scratch.dscore_pairs + p * kAttentionQueryTile + i);
    }
  }
  // Rows beyond the tile's queries are zeros.
  const std::int64_t spare = 2 * whole_pairs(tile.count) - tile.count;
  for (std::int64_t j = 0; j < keys; ++j) {
    std::fill_n(scratch.probability_rows + j * kAttentionQueryTile + tile.count, spare, std::uint16_t{0});
    std::fill_n(scratch.dscore_rows + j * kAttentionQueryTile + tile.count, spare, std::uint16_t{0});
  }
}

HWY_INLINE void load_dot_query_tile(const AttentionProblem& problem, const AttentionData& data,
                                    const AttentionGradData& grad, std::int64_t head, const QueryTile& tile,
                                    const DotBackwardScratch& scratch) {
  turn_pairs(problem, data.q, head, tile, scratch.queries);
  turn_pairs(problem, grad.doutput, head, tile, scratch.doutputs);
  pair_tile(problem, data.q, head, tile, scratch.q_pairs);
  pair_tile(problem, grad.doutput, head, tile, scratch.doutput_pairs);
  load_row_sums(problem, grad, tile, head, scratch.log_sum_exp, scratch.log_sum_rest, scratch.output_dot_doutput);
}

// Adds a head's share to the gradients of the rows of k and v that it reads; without `adds` it overwrites them.
void dot_grad_head(const AttentionProblem& problem, const AttentionData& data, const AttentionGradData& grad,
                   std::int64_t begin, std::int64_t end, std::int64_t head, bool adds, bool table_gradients,
                   const DotBackwardScratch& scratch, double* bin_sums) {
  const std::int64_t head_size = problem.head_size, stride = problem.row_stride(), shared = head / problem.group;
  HeadBiases biases(scratch.biases, problem, data, head);
  HeadBiasSums sums(problem, biases, scratch.bias_sums);
  for (std::int64_t first = begin; first < end; first += kAttentionQueryTile) {
    const QueryTile tile = query_tile(begin, first, end);
    biases.start(tile);
    load_dot_query_tile(problem, data, grad, head, tile, scratch);
    const DotSum of_tile = !adds && first == begin ? DotSum::kStore : DotSum::kAdd;
    const std::int64_t seen = problem.keys_end(first + tile.count, end);
    for (std::int64_t key = begin; key < seen; key += kAttentionKeyTile) {
      const std::int64_t keys = std::min(seen - key, kAttentionKeyTile), row = key - begin;
      dot_product_bf16(feature_pairs(problem.of_keys, data.k, shared, key), keys, head_size / 2, scratch.queries,
                       kAttentionQueryTile, scratch.scores, kAttentionQueryTile, tile.columns, DotSum::kStore);
      dot_product_bf16(feature_pairs(problem.of_keys, data.v, shared, key), keys, head_size / 2, scratch.doutputs,
                       kAttentionQueryTile, scratch.dscores, kAttentionQueryTile, tile.columns, DotSum::kStore);
      biases.add_to(tile, key, keys, data.key_mask, problem.score_scale, scratch.scores, scratch.largest);
      if (problem.dropout) {
        dot_softmax_grad<true>(problem, data, head, tile, key, keys, table_gradients, scratch);
      } else {
        dot_softmax_grad<false>(problem, data, head, tile, key, keys, table_gradients, scratch);
      }
      const std::int64_t query_pairs = whole_pairs(tile.count);
      dot_product_bf16({scratch.probability_rows, kAttentionQueryTile}, keys, query_pairs, scratch.doutput_pairs,
                       head_size, scratch.wide_dv + row * stride, stride, head_size, of_tile);
      dot_product_bf16({scratch.dscore_rows, kAttentionQueryTile}, keys, query_pairs, scratch.q_pairs, head_size,
                       scratch.wide_dk + row * stride, stride, head_size, of_tile);
      dot_product_bf16({scratch.k_columns + row, problem.turned_stride()}, head_size, whole_pairs(keys),
                       scratch.dscore_pairs, kAttentionQueryTile, scratch.dqueries, kAttentionQueryTile, tile.columns,
                       key == begin ? DotSum::kStore : DotSum::kAdd);
      sums.add(tile, key, keys, scratch.dscores);
    }
    sums.finish(tile);
    store_tile(problem, tile, scratch.dqueries, 1, head, grad.dq);
  }
  sums.store(bin_sums);
}

void dot_grad_item(const AttentionProblem& problem, const AttentionData& data, const AttentionGradData& grad,
                   std::int64_t sample, std::int64_t shared, std::int64_t item_bins, ScratchCursor cursor,
                   double* bin_sums) {
  const DotBackwardScratch scratch(cursor, problem, item_bins > 0);
  const std::int64_t begin = data.sample_offsets[sample], end = data.sample_offsets[sample + 1];
  const HeadRows dk{scratch.wide_dk, problem.row_stride()}, dv{scratch.wide_dv, problem.row_stride()};
  turn_sample(problem, data.k, shared, begin, end - begin, scratch.k_columns);
  // The first tile of queries then does not reach all keys, so tiles may only add.
  if (problem.causal) clear_sums(dk, dv, end - begin, problem.row_stride());
  for (std::int64_t head = shared * problem.group; head < (shared + 1) * problem.group; ++head) {
    const bool adds = problem.causal || head > shared * problem.group;
    dot_grad_head(problem, data, grad, begin, end, head, adds, item_bins > 0, scratch, bin_sums + head * item_bins);
  }
  store_sums(problem.of_keys, dk, shared, begin, end - begin, grad.dk);
  store_sums(problem.of_keys, dv, shared, begin, end - begin, grad.dv);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(dot_grad_item);

AttentionGradItem attention_dot_grad_item() { return HWY_DYNAMIC_DISPATCH(dot_grad_item); }

}  // namespace plimsoll
#endif  // HWY_ONCE
