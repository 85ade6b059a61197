// What the two walks of attention's gradient share: by warps (attention_grad.cu) and by warpgroups
// (attention_grad_warpgroup.cu). A block keeps keys, sums their dk and dv in registers, and walks over the queries. It
// adds its share to their dq in device memory, after the blocks of earlier keys.
#pragma once

#include "backend/cuda/attention.h"
#include "backend/cuda/attention_sums.h"
#include "backend/cuda/blocks.h"

namespace plimsoll::cuda {

// The order in which blocks add to dq.
struct Turns {
  unsigned* begun;     // counts blocks
  unsigned* added;     // [samples][heads][rows / 16]: how many blocks have added to these queries
  int row_tiles;       // of 16 rows, of the longest sample
  unsigned key_tiles;  // of a block's rows, of the longest sample
  // If true, the blocks of a head begin at different queries and wrap around, so that none waits for another's first
  // addition. This needs all of a head's blocks to run at once, since they wait for each other.
  bool goes_around = false;
};

// Returns the place of the block with this number. Heads of samples are numbered in groups whose tensors fit a GPU's L2
// cache, so that all blocks of a group find them there. Within a group, every head's first keys come before any head's
// second (or, with last_first, in the opposite order), so that a block finds the sums that it adds to complete. If the
// blocks of a head go around, they have neighbouring numbers.
inline constexpr unsigned kHeadsAtOnce = 48;
__device__ inline BlockPlace place_of(unsigned number, const AttentionShape& shape, unsigned key_tiles,
                                      bool goes_around = false, bool last_first = false) {
  const unsigned heads = static_cast<unsigned>(shape.heads), all = heads * static_cast<unsigned>(shape.samples);
  const unsigned at_once = goes_around ? 1 : kHeadsAtOnce;
  const unsigned first = number / (at_once * key_tiles) * at_once;
  const unsigned within = number % (at_once * key_tiles), count = all - first < at_once ? all - first : at_once;
  const unsigned item = first + within % count, tile = within / count;
  return {.tile = last_first ? key_tiles - 1 - tile : tile, .head = item % heads, .sample = item / heads};
}

// Sets a lane's sums of one of its rows to 0.
template <int kOutBlocks>
__device__ inline void clear_row(int row, float (&a)[kOutBlocks][4], float (&b)[kOutBlocks][4]) {
#pragma unroll
  for (int n = 0; n < kOutBlocks; ++n) a[n][2 * row] = a[n][2 * row + 1] = b[n][2 * row] = b[n][2 * row + 1] = 0;
}

template <typename T>
struct BackwardTensors {
  AttentionTensors<T> in;
  const T* doutput;
  RowSums sums;
  Turns turns;
  float* dq_sums;  // queries_of
  T *dq, *dk, *dv;
  float *shared_dk, *shared_dv;  // of each head, if heads share dk and dv; else nullptr
  float* partial;                // [heads * bins][slots], zeros where no block writes
  std::int64_t slots;
  TileSums tile_sums;
};

template <int kRows, typename Form, typename T>
__device__ void copy_query_facts(const BlockRows<Form>& block, QueryFacts* to, const BackwardTensors<T>& t,
                                 const AttentionShape& shape, int first) {
  const int row = static_cast<int>(threadIdx.x);
  static_assert(kRows <= Form::kThreads);
  if (row >= kRows) return;
  if (row >= block.real(first)) {
    to[row] = {INFINITY, 0, 0};
    return;
  }
  const std::int64_t at = (block.begin() + first + row) * shape.heads + block.head;
  copy_async<4>(&to[row].log_sum_exp2, t.sums.log_sums2 + 2 * at, true);
  if constexpr (!Form::kHalf) copy_async<4>(&to[row].log_sum_rest2, t.sums.log_sums2 + 2 * at + 1, true);
  copy_async<4>(&to[row].delta, t.sums.delta + at, true);
}

// Initializes scores without biases: to 0 where the lane's two keys are `open`, else to -infinity, and also, if
// `causal`, to -infinity for queries before the key. Rows are a warp's keys from the block's rows, columns queries from
// `first` on.
template <typename Form, int kBlocks>
__device__ void start_without_biases(float (&scores)[kBlocks][4], const bool (&open)[2], const BlockRows<Form>& block,
                                     bool causal, int first) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = open[i / 2] ? 0.0F : -INFINITY;
  }
  if (!causal || first >= block.first + Form::kRows) return;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int of_query = first + 8 * n + block.lane % 4 * 2 + i % 2;
      if (block.warp_first() + block.lane / 4 + 8 * (i / 2) > of_query) scores[n][i] = -INFINITY;
    }
  }
}

// Returns the sums of dq of 16 queries, which all blocks share: for each part of the columns, what the lanes of a warp
// hold.
template <typename Form>
__device__ float* queries_of(const BlockRows<Form>& block, float* sums, int query, const AttentionShape& shape) {
  const std::int64_t tile = block.begin() / 16 + block.sample + query / 16;
  return sums + (tile * shape.heads + block.head) * 16 * Form::kColumns;
}

// Returns a lane's sums of a part of dq's columns, for 16 queries.
template <int kBlocks>
__device__ Pack<float, 4>* lane_sums(float* sums, int part) {
  return reinterpret_cast<Pack<float, 4>*>(sums) + part * kBlocks * kWarp + threadIdx.x % kWarp;
}
// Reads what earlier blocks have added to kBlocks of them, from `first` on.
template <int kBlocks>
__device__ void load_sums(Pack<float, 4> (&before)[kBlocks], const Pack<float, 4>* sums, int first = 0) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) before[n] = load_of_other_blocks(sums + (first + n) * kWarp);
}
// Writes them with one more share added.
template <int kBlocks, int kAllBlocks>
__device__ void store_sums_with(const float (&share)[kAllBlocks][4], const Pack<float, 4> (&before)[kBlocks],
                                Pack<float, 4>* sums, int first = 0) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    Pack<float, 4> all;
#pragma unroll
    for (int i = 0; i < 4; ++i) all.at[i] = before[n].at[i] + share[first + n][i];
    sums[(first + n) * kWarp] = all;
  }
}

// Writes a warp's dq of 16 queries, to which all blocks have added, and its sums over rows.
template <typename Form, typename T, int kOutBlocks>
__device__ void store_queries(const float (&whole)[kOutBlocks][4], const BlockRows<Form>& block, int query,
                              const BackwardTensors<T>& t, const AttentionShape& shape) {
  store_rows<Form>(whole, shape.scale, shape.scale, block.row_of(t.dq, query), block.real(query), shape);
  if (t.tile_sums.at == nullptr) return;
  float* const to = t.tile_sums.of(block.begin(), block.sample, query, 0, block.stride) + block.head_column;
  store_sums<Form>(whole, shape.scale, to, block.real(query), shape);
}

// Writes the dq of a sample's and head's queries from `begin` to `end`, 16 queries per warp at a time. Called by the
// last block that has added to them.
template <typename Form, typename T>
__device__ void write_queries(const BlockRows<Form>& block, int begin, int end, const BackwardTensors<T>& t,
                              const AttentionShape& shape) {
#pragma unroll 1
  for (int query = begin + 16 * block.warp; query < end; query += 16 * Form::kWarps) {
    const auto* const sums = reinterpret_cast<const Pack<float, 4>*>(queries_of(block, t.dq_sums, query, shape));
    float whole[Form::kOutBlocks][4];
#pragma unroll
    for (int n = 0; n < Form::kOutBlocks; ++n) {
      const Pack<float, 4> four = load_of_other_blocks(sums + n * kWarp + block.lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) whole[n][i] = four.at[i];
    }
    store_queries(whole, block, query, t, shape);
  }
}

// Writes a warp's dk and dv, those of its keys that are `open`, and their sums over its rows.
template <bool kKeys, bool kValues, typename Form, typename T, int kOutBlocks>
__device__ void store_keys(float (&dk_sums)[kOutBlocks][4], float (&dv_sums)[kOutBlocks][4], const bool (&open)[2],
                           const BlockRows<Form>& block, bool shares, const BackwardTensors<T>& t,
                           const AttentionShape& shape) {
  const int at = block.warp_first(), real = block.real(at);
  // A masked key has no gradient, whatever its sums are: they do not enter any other key's.
  for (int i = 0; i < 2; ++i) {
    if (!open[i]) clear_row(i, dk_sums, dv_sums);
  }
  if (shares) {
    if constexpr (kKeys)
      store_rows<Form>(dk_sums, shape.scale, shape.scale, block.row_of(t.shared_dk, at), real, shape);
    if constexpr (kValues)
      store_rows<Form>(dv_sums, shape.keep_scale, shape.keep_scale, block.row_of(t.shared_dv, at), real, shape);
  } else {
    if constexpr (kKeys) store_rows<Form>(dk_sums, shape.scale, shape.scale, block.row_of(t.dk, at), real, shape);
    if constexpr (kValues)
      store_rows<Form>(dv_sums, shape.keep_scale, shape.keep_scale, block.row_of(t.dv, at), real, shape);
  }
  if (t.tile_sums.at == nullptr || real <= 0) return;
  const auto of = [&](int tensor) {
    return t.tile_sums.of(block.begin(), block.sample, at, tensor, block.stride) + block.head_column;
  };
  if constexpr (kKeys) store_sums<Form>(dk_sums, shape.scale, of(1), real, shape);
  if constexpr (kValues) store_sums<Form>(dv_sums, shape.keep_scale, of(2), real, shape);
}

// The walk by warpgroups, for halves, heads of 64 columns and no gradients of bias tables, on the architecture that has
// their instructions. A block has kGradGroups groups and keeps kGradRows keys. prepare_ checks the node when it is
// prepared; start_ launches the kernel for the given number of blocks.
inline constexpr int kGradGroups = 3, kGradRows = kGradGroups * 64;
template <typename T, bool kBiased>
void prepare_warpgroup_backward(const Context& context);
template <typename T, bool kBiased>
void start_warpgroup_backward(const Context& context, unsigned blocks, const BackwardTensors<T>& t,
                              const AttentionShape& shape);

}  // namespace plimsoll::cuda
