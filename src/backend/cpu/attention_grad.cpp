// Backward attention (Dao et al. 2022, "FlashAttention", algorithm 4): the scores are recomputed for each tile of
// queries and of keys, with p = exp(score - log_sum_exp). Let m be dropout's 0 or scale, o the output and do its
// gradient. Then:
//   dv_j = sum_i p m do_i              ds = p (m do_i.v_j - do_i.o_i)
//   dq_i = sum_j ds k_j / sqrt(d)      dk_j = sum_i ds q_i / sqrt(d)
// dk and dv are added to in place, query tile after query tile.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention_items.h"
#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_grad.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/attention_bias_sums-inl.h"
#include "backend/cpu/attention_tile-inl.h"
#include "backend/cpu/simd_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Turns scores into p m / dropout_scale and dp into ds.
template <bool kDropout>
HWY_NOINLINE void backward_softmax(const AttentionProblem& problem, const AttentionData& data, std::int64_t head,
                                   const QueryTile& tile, std::int64_t first_key, std::int64_t keys,
                                   const BackwardScratch& scratch) {
  const hn::ScalableTag<float> d;
  for (std::int64_t i = 0; i < tile.columns; i += vector_lanes()) {
    const auto log_sum_exp = hn::Load(d, scratch.log_sum_exp + i);
    const auto log_sum_rest = hn::Load(d, scratch.log_sum_rest + i);
    const auto output_dot_doutput = hn::Load(d, scratch.output_dot_doutput + i);
    [[maybe_unused]] KeptKeys kept(problem, data, head, tile, i);
    for (std::int64_t j = 0; j < keys; ++j) {
      float* const score = scratch.probabilities + j * kAttentionQueryTile + i;
      float* const dscore = scratch.dscores + j * kAttentionQueryTile + i;
      const auto probability = simd_exp(d, hn::Sub(hn::Sub(hn::Load(d, score), log_sum_exp), log_sum_rest));
      auto dprobability = hn::Load(d, dscore);
      if constexpr (kDropout) {
        const auto keep = kept.kept(first_key + j);
        hn::Store(hn::IfThenElseZero(keep, probability), d, score);
        dprobability = hn::IfThenElseZero(keep, dprobability);
      } else {
        hn::Store(probability, d, score);
      }
      hn::Store(hn::Mul(probability, hn::Sub(dprobability, output_dot_doutput)), d, dscore);
    }
  }
}

// to[j, :] (+)= sum over the tile's queries i of factors[j, i] * rows[i, :], for `keys` rows of one head.
HWY_INLINE void add_key_rows(const AttentionProblem& problem, const QueryTile& tile, const float* factors,
                             const float* rows, std::int64_t keys, std::int64_t head_size, std::int64_t width,
                             const BackwardScratch& scratch, bool first, float* to) {
  const ProductRows a{factors, kAttentionQueryTile};
  if (head_size % vector_lanes() == 0) {
    simd_product(a, keys, tile.count, rows, problem.row_stride(), to, width, head_size,
                 first ? ProductSum::kStore : ProductSum::kAdd);
    return;
  }
  const std::int64_t columns = (head_size + vector_lanes() - 1) / vector_lanes() * vector_lanes();
  simd_product(a, keys, tile.count, rows, problem.row_stride(), scratch.key_rows, problem.row_stride(), columns,
               ProductSum::kStore);
  for (std::int64_t j = 0; j < keys; ++j) {
    const float* const from = scratch.key_rows + j * problem.row_stride();
    for (std::int64_t c = 0; c < head_size; ++c) to[j * width + c] = first ? from[c] : to[j * width + c] + from[c];
  }
}

// Loads what a tile of queries needs from its rows before it meets any key.
HWY_INLINE void load_query_tile(const AttentionProblem& problem, const AttentionData& data,
                                const AttentionGradData& grad, std::int64_t head, const QueryTile& tile,
                                const BackwardScratch& scratch) {
  const std::int64_t head_size = problem.head_size, stride = problem.row_stride();
  load_rows(problem, data.q, head, tile.first, tile.count, problem.score_scale, scratch.query_rows);
  load_rows(problem, grad.doutput, head, tile.first, tile.count, problem.dropout_scale, scratch.doutput_rows);
  turn_rows(tile, scratch.query_rows, stride, head_size, scratch.queries);
  turn_rows(tile, scratch.doutput_rows, stride, head_size, scratch.doutputs);
  load_row_sums(problem, grad, tile, head, scratch.log_sum_exp, scratch.log_sum_rest, scratch.output_dot_doutput);
}

// Adds a head's share to the gradients of the rows of k and v that it reads; without `adds` it overwrites them.
void attention_grad_head(const AttentionProblem& problem, const AttentionData& data, const AttentionGradData& grad,
                         std::int64_t begin, std::int64_t end, std::int64_t head, const HeadRows& k, const HeadRows& v,
                         const HeadRows& dk, const HeadRows& dv, bool adds, const BackwardScratch& scratch,
                         double* bin_sums) {
  const std::int64_t head_size = problem.head_size;
  HeadBiases biases(scratch.biases, problem, data, head);
  HeadBiasSums sums(problem, biases, scratch.bias_sums);
  for (std::int64_t first = begin; first < end; first += kAttentionQueryTile) {
    const QueryTile tile = query_tile(begin, first, end);
    biases.start(tile);
    load_query_tile(problem, data, grad, head, tile, scratch);
    const bool stores = !adds && first == begin;
    const std::int64_t seen = problem.keys_end(first + tile.count, end);
    for (std::int64_t key = begin; key < seen; key += kAttentionKeyTile) {
      const std::int64_t keys = std::min(seen - key, kAttentionKeyTile);
      const std::int64_t row = key - begin;
      simd_product(ProductRows{k.data + row * k.stride, k.stride}, keys, head_size, scratch.queries,
                   kAttentionQueryTile, scratch.probabilities, kAttentionQueryTile, tile.columns, ProductSum::kStore);
      simd_product(ProductRows{v.data + row * v.stride, v.stride}, keys, head_size, scratch.doutputs,
                   kAttentionQueryTile, scratch.dscores, kAttentionQueryTile, tile.columns, ProductSum::kStore);
      biases.add_to(tile, key, keys, data.key_mask, 1, scratch.probabilities, scratch.largest);
      if (problem.dropout) {
        backward_softmax<true>(problem, data, head, tile, key, keys, scratch);
      } else {
        backward_softmax<false>(problem, data, head, tile, key, keys, scratch);
      }
      add_key_rows(problem, tile, scratch.probabilities, scratch.doutput_rows, keys, head_size, dv.stride, scratch,
                   stores, dv.data + row * dv.stride);
      add_key_rows(problem, tile, scratch.dscores, scratch.query_rows, keys, head_size, dk.stride, scratch, stores,
                   dk.data + row * dk.stride);
      simd_product(ProductColumns{k.data + row * k.stride, k.stride}, head_size, keys, scratch.dscores,
                   kAttentionQueryTile, scratch.dqueries, kAttentionQueryTile, tile.columns,
                   key == begin ? ProductSum::kStore : ProductSum::kAdd);
      sums.add(tile, key, keys, scratch.dscores);
    }
    sums.finish(tile);
    store_tile(problem, tile, scratch.dqueries, problem.score_scale, head, grad.dq);
  }
  sums.store(bin_sums);
}

void attention_grad_item(const AttentionProblem& problem, const AttentionData& data, const AttentionGradData& grad,
                         std::int64_t sample, std::int64_t shared, std::int64_t item_bins, ScratchCursor cursor,
                         double* bin_sums) {
  const BackwardScratch scratch(cursor, problem, item_bins > 0);
  const AttentionRows& of_keys = problem.of_keys;
  const std::int64_t begin = data.sample_offsets[sample], end = data.sample_offsets[sample + 1];
  const HeadRows k = head_rows(of_keys, data.k, shared, begin, end - begin, scratch.wide_k);
  const HeadRows v = head_rows(of_keys, data.v, shared, begin, end - begin, scratch.wide_v);
  const HeadRows dk = head_sums(of_keys, grad.dk, shared, begin, scratch.wide_dk);
  const HeadRows dv = head_sums(of_keys, grad.dv, shared, begin, scratch.wide_dv);
  // The first tile of queries then does not reach all keys, so tiles may only add.
  if (problem.causal) clear_sums(dk, dv, end - begin, problem.head_size);
  for (std::int64_t head = shared * problem.group; head < (shared + 1) * problem.group; ++head) {
    const bool adds = problem.causal || head > shared * problem.group;
    attention_grad_head(problem, data, grad, begin, end, head, k, v, dk, dv, adds, scratch,
                        bin_sums + head * item_bins);
  }
  store_sums(of_keys, dk, shared, begin, end - begin, grad.dk);
  store_sums(of_keys, dv, shared, begin, end - begin, grad.dv);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(attention_grad_item);

namespace {

// Returns the number of bin sums of one (sample, head).
std::int64_t bins_of_item(const AttentionProblem& problem, bool table_gradients) {
  std::int64_t bins = 0;
  for (std::size_t i = 0; table_gradients && i < AttentionForm::kBiases; ++i) {
    if (problem.form.has_bias[i]) bins += problem.buckets[i].bins();
  }
  return bins;
}

// Adds up the items' sums, samples in order, into the gradients of the tables that the node has.
void store_table_gradients(const AttentionProblem& problem, const std::int32_t* sample_offsets, const double* bin_sums,
                           std::span<const TensorView> tables) {
  const std::int64_t item_bins = bins_of_item(problem, true);
  std::int64_t first_bin = 0;
  for (const TensorView& table : tables) {
    const std::int64_t bins = table.shape()[1];
    float* const gradient = table.data<float>();
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      for (std::int64_t bin = 0; bin < bins; ++bin) {
        double sum = 0;
        for (std::int64_t sample = 0; sample < problem.samples; ++sample) {
          if (sample_offsets[sample] == sample_offsets[sample + 1]) continue;
          sum += bin_sums[(sample * problem.heads + head) * item_bins + first_bin + bin];
        }
        gradient[head * bins + bin] = static_cast<float>(sum * problem.score_scale);
      }
    }
    first_bin += bins;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_attention_grad(const Graph& graph, const Node& node) {
  const AttentionProblem problem(graph, node);
  const bool table_gradients = std::get<AttentionAttributes>(node.attributes).table_gradients;
  const std::int64_t item_bins = bins_of_item(problem, table_gradients);
  // The scratch shared by all threads comes first, then each thread's own.
  const auto take_shared = [=](ScratchCursor& cursor, std::int32_t*& order, double*& bin_sums) {
    order = cursor.take<std::int32_t>(problem.samples);
    bin_sums = cursor.take<double>(problem.samples * problem.heads * item_bins);
  };
  std::int32_t* no_order = nullptr;
  double* no_sums = nullptr;
  ScratchCursor shared(nullptr), own(nullptr);
  take_shared(shared, no_order, no_sums);
  if (problem.dots) {
    DotBackwardScratch(own, problem, table_gradients);
  } else {
    BackwardScratch(own, problem, table_gradients);
  }
  const std::size_t shared_bytes = shared.used(), own_bytes = own.used();
  const AttentionGradItem item = problem.dots ? attention_dot_grad_item() : HWY_DYNAMIC_DISPATCH(attention_grad_item);
  return make_kernel(
      [=](const KernelArguments& arguments) {
        const AttentionData data(arguments, problem.form);
        const AttentionGradData grad{
            arguments.inputs[0].raw(),  arguments.inputs[4].raw(),  arguments.inputs[5].data<const float>(),
            arguments.outputs[0].raw(), arguments.outputs[1].raw(), arguments.outputs[2].raw()};
        std::byte* const scratch = arguments.scratch.data();
        ScratchCursor all(scratch);
        std::int32_t* order = nullptr;
        double* bin_sums = nullptr;
        take_shared(all, order, bin_sums);
        for_each_attention_item(
            problem, problem.heads / problem.group, data.sample_offsets, order,
            [&](std::int64_t sample, std::int64_t key_value_head, int member) {
              const ScratchCursor cursor(scratch + shared_bytes + static_cast<std::size_t>(member) * own_bytes);
              item(problem, data, grad, sample, key_value_head, item_bins, cursor,
                   bin_sums + sample * problem.heads * item_bins);
            });
        if (table_gradients) {
          store_table_gradients(problem, data.sample_offsets, bin_sums, arguments.outputs.subspan(3));
        }
      },
      shared_bytes + static_cast<std::size_t>(problem.threads) * own_bytes);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
