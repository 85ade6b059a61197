// Forward attention: each tile of queries takes key tile after key tile. Scores come from one product, softmax keeps a
// running maximum and sum (Milakov, Gimelshein 2018, "Online normalizer calculation for softmax"), and the product with
// v follows. Nothing larger than a tile of 192 keys x 64 queries is ever stored.
#include <cmath>

#include "backend/cpu/attention_items.h"
#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/attention_tile-inl.h"
#include "backend/cpu/simd_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Turns the scores of a key tile into exp(score - running maximum), 0 where dropout drops them, and updates `sums` and
// the factors that rescale earlier tiles to the new maximum.
template <bool kDropout>
HWY_NOINLINE void forward_softmax(const AttentionProblem& problem, const AttentionData& data, std::int64_t head,
                                  const QueryTile& tile, std::int64_t first_key, std::int64_t keys,
                                  const ForwardScratch& scratch) {
  const hn::ScalableTag<float> d;
  for (std::int64_t i = 0; i < tile.columns; i += vector_lanes()) {
    const auto before = hn::Load(d, scratch.largest + i);
    const auto largest = hn::Max(hn::Load(d, scratch.tile_largest + i), before);
    const auto factor = simd_exp(d, hn::Sub(before, largest));
    auto sum = hn::Zero(d);
    [[maybe_unused]] KeptKeys kept(problem, data, head, tile, i);
    for (std::int64_t j = 0; j < keys; ++j) {
      float* const score = scratch.scores + j * kAttentionQueryTile + i;
      auto probability = simd_exp(d, hn::Sub(hn::Load(d, score), largest));
      sum = hn::Add(sum, probability);
      if constexpr (kDropout) probability = hn::IfThenElseZero(kept.kept(first_key + j), probability);
      hn::Store(probability, d, score);
    }
    hn::Store(largest, d, scratch.largest + i);
    hn::Store(hn::MulAdd(hn::Load(d, scratch.sums + i), factor, sum), d, scratch.sums + i);
    hn::Store(factor, d, scratch.factors + i);
  }
}

void attention_item(const AttentionProblem& problem, const AttentionData& data, void* output, float* log_sum_exp,
                    std::int64_t sample, std::int64_t head, ScratchCursor cursor) {
  const ForwardScratch scratch(cursor, problem);
  const std::int64_t begin = data.sample_offsets[sample], end = data.sample_offsets[sample + 1];
  const std::int64_t head_size = problem.head_size;
  const std::int64_t shared = head / problem.group;
  const HeadRows k = head_rows(problem.of_keys, data.k, shared, begin, end - begin, scratch.wide_k);
  const HeadRows v = head_rows(problem.of_keys, data.v, shared, begin, end - begin, scratch.wide_v);
  HeadBiases biases(scratch.biases, problem, data, head);
  for (std::int64_t first = begin; first < end; first += kAttentionQueryTile) {
    const QueryTile tile = query_tile(begin, first, end);
    biases.start(tile);
    load_rows(problem, data.q, head, tile.first, tile.count, problem.score_scale, scratch.query_rows);
    turn_rows(tile, scratch.query_rows, problem.row_stride(), head_size, scratch.queries);
    std::fill_n(scratch.largest, tile.columns, std::numeric_limits<float>::lowest());
    std::fill_n(scratch.sums, tile.columns, 0.0F);
    const std::int64_t seen = problem.keys_end(first + tile.count, end);
    for (std::int64_t key = begin; key < seen; key += kAttentionKeyTile) {
      const std::int64_t keys = std::min(seen - key, kAttentionKeyTile);
      simd_product(ProductRows{k.data + (key - begin) * k.stride, k.stride}, keys, head_size, scratch.queries,
                   kAttentionQueryTile, scratch.scores, kAttentionQueryTile, tile.columns, ProductSum::kStore);
      std::fill_n(scratch.tile_largest, tile.columns, std::numeric_limits<float>::lowest());
      biases.add_to(tile, key, keys, data.key_mask, 1, scratch.scores, scratch.tile_largest);
      if (problem.dropout) {
        forward_softmax<true>(problem, data, head, tile, key, keys, scratch);
      } else {
        forward_softmax<false>(problem, data, head, tile, key, keys, scratch);
      }
      simd_product(ProductColumns{v.data + (key - begin) * v.stride, v.stride}, head_size, keys, scratch.scores,
                   kAttentionQueryTile, scratch.output, kAttentionQueryTile, tile.columns,
                   key == begin ? ProductSum::kStore : ProductSum::kAdd, scratch.factors);
    }
    store_outputs(problem, tile, scratch.output, scratch.sums, scratch.largest, head, output, log_sum_exp);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
HWY_EXPORT(attention_item);

std::unique_ptr<Kernel> make_attention(const Graph& graph, const Node& node) {
  const AttentionProblem problem(graph, node);
  ScratchCursor shared(nullptr), own(nullptr);
  shared.take<std::int32_t>(problem.samples);
  if (problem.dots) {
    DotForwardScratch(own, problem);
  } else {
    ForwardScratch(own, problem);
  }
  const std::size_t shared_bytes = shared.used(), own_bytes = own.used();
  const AttentionItem item = problem.dots ? attention_dot_item() : HWY_DYNAMIC_DISPATCH(attention_item);
  return make_kernel(
      [=](const KernelArguments& arguments) {
        const AttentionData data(arguments, problem.form);
        void* const output = arguments.outputs[0].raw();
        float* const log_sum_exp = arguments.outputs[1].data<float>();
        std::byte* const scratch = arguments.scratch.data();
        for_each_attention_item(
            problem, problem.heads, data.sample_offsets, reinterpret_cast<std::int32_t*>(scratch),
            [&](std::int64_t sample, std::int64_t head, int member) {
              const ScratchCursor cursor(scratch + shared_bytes + static_cast<std::size_t>(member) * own_bytes);
              item(problem, data, output, log_sum_exp, sample, head, cursor);
            });
      },
      shared_bytes + static_cast<std::size_t>(problem.threads) * own_bytes);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
