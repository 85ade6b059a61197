// What the two forms of attention share: by warps (attention.cu) and by warpgroups (attention_warpgroup.cu). A block
// keeps queries and walks over the keys with a running maximum and sum.
#pragma once

#include <cfloat>

#include "backend/cuda/attention.h"

namespace plimsoll::cuda {

// Called by the block of a sample and head. The last sample's blocks write zeros after the real rows (sizes/tails.h).
template <typename Form, typename T>
__device__ void clear_tail(const BlockRows<Form>& block, const std::int32_t* offsets, const AttentionShape& shape,
                           T* output, std::int64_t bound) {
  if (block.sample != shape.samples - 1) return;
  for (std::int64_t row = offsets[shape.samples] + blockIdx.x; row < bound; row += gridDim.x) {
    T* const to = output + row * block.stride + block.head_column;
    for (int c = static_cast<int>(threadIdx.x); c < shape.head_size; c += static_cast<int>(blockDim.x)) {
      to[c] = from_float<T>(0);
    }
  }
}

// Initializes scores without biases from the keys' mask, and, if `causal`, to -infinity where a query comes before its
// key. Rows are a warp's queries, columns the keys from `key` on.
template <typename Form, int kBlocks>
__device__ void start_with_mask(float (&scores)[kBlocks][4], const std::int32_t* mask, const BlockRows<Form>& block,
                                bool causal, int key) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = shut(mask[8 * n + block.lane % 4 * 2 + i % 2]);
  }
  if (!causal || key + 8 * kBlocks <= block.first) return;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int of_key = key + 8 * n + block.lane % 4 * 2 + i % 2;
      if (of_key > block.warp_first() + block.lane / 4 + 8 * (i / 2)) scores[n][i] = -INFINITY;
    }
  }
}

// Returns the largest value, or the sum, over the four lanes that hold a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float row_total(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// The softmax of the lane's two rows over the keys so far.
struct RunningSoftmax {
  // Sums of powers up to 2^kSlack are as precise as sums of powers up to 1, so the base seldom has to change.
  static constexpr float kSlack = 8;
  float base[2] = {-FLT_MAX, -FLT_MAX};  // no score times scale2 exceeds it by more than kSlack
  float sum[2] = {0, 0};

  // Turns a tile's scores into powers, and rescales `out` to their base.
  template <int kBlocks, int kOutBlocks>
  __device__ void take(float (&scores)[kBlocks][4], float (&out)[kOutBlocks][4], float scale2) {
    float tile_largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tile_largest[i / 2] = fmaxf(tile_largest[i / 2], scores[n][i]);
    }
    float wanted[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) wanted[i] = row_max(tile_largest[i]) * scale2;
#pragma unroll 1
    while (__ballot_sync(kAllLanes, wanted[0] > base[0] + kSlack || wanted[1] > base[1] + kSlack) != 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float before = base[i];
        base[i] = fmaxf(before, wanted[i]);
        const float correction = exp2_fast(before - base[i]);
        sum[i] *= correction;
#pragma unroll
        for (int n = 0; n < kOutBlocks; ++n) {
          out[n][2 * i] *= correction;
          out[n][2 * i + 1] *= correction;
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = exp2_fast(fmaf(scores[n][i], scale2, -base[i / 2]));
        sum[i / 2] += scores[n][i];
      }
    }
  }

  // Writes the warp's rows of the output, from the sums to the base, and the logs of their sums of exp.
  template <typename Form, typename T, int kOutBlocks>
  __device__ void store(const float (&out)[kOutBlocks][4], const BlockRows<Form>& block, const AttentionShape& shape,
                        T* output, float* log_sum_exp) const {
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float total = row_total(sum[i]);
      factor[i] = total == 0 ? 0.0F : shape.keep_scale / total;  // a NaN stays NaN, whatever dropout drops
      const int row = block.warp_first() + block.lane / 4 + 8 * i;
      if (block.lane % 4 == 0 && row < block.length) {
        store_parts(total == 0 ? -INFINITY : double{base[i]} * kLn2 + double{logf(total)},
                    log_sum_exp + 2 * ((block.begin() + row) * shape.heads + block.head));
      }
    }
    store_rows<Form>(out, factor[0], factor[1], block.row_of(output, block.warp_first()),
                     block.real(block.warp_first()), shape);
  }
};

// Sets the scores to 0 that dropout drops; `bits` are those of the warp's queries and the scores' keys.
template <typename Bits, int kBlocks>
__device__ void drop(float (&scores)[kBlocks][4], const Bits& bits, const AttentionShape& shape) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const unsigned* const words = bits.words + lane / 4 * Bits::kStride + lane % 4;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!Bits::keeps(words, shape, 8 * (i / 2), 8 * n + i % 2)) scores[n][i] = 0;
    }
  }
}

// The form by warpgroups, for halves and heads of 64 columns, on the architecture that has their instructions.
// prepare_ checks the node when it is prepared; start_ launches the kernel for samples of at most `longest` rows.
template <typename T, bool kBiased>
void prepare_warpgroup_attention(const Context& context);
template <typename T, bool kBiased>
void start_warpgroup_attention(const Context& context, std::int64_t longest, const AttentionTensors<T>& in,
                               const AttentionShape& shape, T* output, float* log_sum_exp, std::int64_t bound);

}  // namespace plimsoll::cuda
