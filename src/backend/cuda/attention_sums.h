// The row sums of attention's gradient outside its walk (attention_grad.cu): a kernel before the walk computes each
// query's sums over its columns and clears what the walk adds to; the walk computes the sums of dq, dk and dv over 16
// rows each, from which the gradients of biases are computed.
#pragma once

#include "backend/cuda/attention.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {

// The sums that the first kernel leaves for the walk, [n][heads] each.
struct RowSums {
  float* delta;      // output . doutput
  float* log_sums2;  // pairs: log_sum_exp in units of ln 2, infinity where all keys are masked
  float* dout_norm;  // Euclidean norms, infinite where a value is not finite; nullptr without table gradients
  float* v_norm;
};

__device__ inline float norm_of(float squares) { return squares <= 3.4e38F ? sqrtf(squares) : INFINITY; }

// The sums over every 16 rows of a sample, [tiles][dq, dk, dv][heads * head_size]; a sample's tiles begin at begin / 16
// + its number. nullptr: they are not wanted.
struct TileSums {
  float* at;
  std::int64_t count;  // of tiles whose sums are added up, whether or not samples have them; 0: of those that have

  __device__ float* of(std::int64_t begin, int sample, int row, int tensor, std::int64_t stride) const {
    return at + ((begin / 16 + sample + row / 16) * 3 + tensor) * stride;
  }
  // Writes zeros to the tile that may lie between one sample's tiles and the next one's, and to those behind the last
  // sample's, spread over the grid.
  __device__ void clear_unused(const std::int32_t* offsets, const AttentionShape& shape) const {
    if (at == nullptr) return;
    const std::int64_t each = 3 * shape.stride(), stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i < shape.samples * each; i += stride) {
      const auto sample = static_cast<int>(i / each);
      const std::int64_t begin = offsets[sample], end = offsets[sample + 1];
      const std::int64_t behind = begin / 16 + sample + (end - begin + 15) / 16;
      if (behind < end / 16 + sample + 1) at[behind * each + i % each] = 0;
    }
    i = (offsets[shape.samples] / 16 + shape.samples) * each + static_cast<std::int64_t>(blockIdx.x) * blockDim.x +
        threadIdx.x;
    for (; i < count * each; i += stride) at[i] = 0;
  }
};

// Sums a warp's 16 rows as the products hold them, times a factor: their first `real` rows, in each column of the head.
// The arguments are those of store_rows.
template <typename Form, int kOutBlocks>
__device__ void store_sums(const float (&rows)[kOutBlocks][4], float factor, float* to, int real,
                           const AttentionShape& shape) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const bool low = lane / 4 < real, high = lane / 4 + 8 < real;
#pragma unroll
  for (int n = 0; n < kOutBlocks; ++n) {
    float sums[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums[i] = (low ? rows[n][i] : 0.0F) + (high ? rows[n][2 + i] : 0.0F);
#pragma unroll
      for (int step = 4; step < static_cast<int>(kWarp); step *= 2)
        sums[i] += __shfl_xor_sync(kAllLanes, sums[i], step);
      const int column = 8 * n + lane % 4 * 2 + i;
      if (lane < 4 && column < shape.head_size) to[column] = sums[i] * factor;
    }
  }
}

template <typename T>
struct Outputs {
  T *dq, *dk, *dv;
  std::int64_t rows;  // an upper bound, as far as the host knows

  // Writes zeros from that row on (sizes/tails.h), spread over the grid.
  __device__ void clear_tails(std::int64_t first, const AttentionShape& shape) const {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (std::int64_t at = first * shape.stride() + thread; at < rows * shape.stride(); at += stride) {
      dq[at] = from_float<T>(0);
    }
    for (std::int64_t at = first * shape.key_stride() + thread; at < rows * shape.key_stride(); at += stride) {
      dk[at] = dv[at] = from_float<T>(0);
    }
  }
};

// Returns the sum of x over groups of `lanes` lanes, a power of 2, in all of them.
__device__ inline float sum_of_lanes(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// `lanes` lanes of a warp take a row of a head, N columns each at a time. Clears `zeros` for the next kernels, too.
template <int N, typename T>
__global__ void attention_row_sums(const T* doutput, const T* output, const T* v, const float* log_sum_exp,
                                   const std::int32_t* offsets, const AttentionShape shape, int lanes, RowSums to,
                                   unsigned* zeros, std::int64_t count, Outputs<T> outputs, TileSums tile_sums) {
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    zeros[i] = 0;
  }
  outputs.clear_tails(offsets[shape.samples], shape);
  tile_sums.clear_unused(offsets, shape);
  const std::int64_t items = std::int64_t{offsets[shape.samples]} * shape.heads;
  const int lane = static_cast<int>(threadIdx.x % kWarp), at_once = static_cast<int>(kWarp) / lanes;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / kWarp);
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  for (std::int64_t first = warp * at_once; first < items; first += warps * at_once) {
    const std::int64_t item = first + lane / lanes, at = item * shape.head_size;  // rows of heads lie in a row
    float delta = 0, dout_squares = 0, v_squares = 0;
    for (int c = lane % lanes * N; item < items && c < shape.head_size; c += lanes * N) {
      float d[N], out[N], value[N];
      load(doutput + at + c, N, d);
      load(output + at + c, N, out);
      if (to.dout_norm != nullptr) load(v + at + c, N, value);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        delta += d[i] * out[i];
        if (to.dout_norm == nullptr) continue;
        dout_squares += d[i] * d[i];
        v_squares += value[i] * value[i];
      }
    }
    delta = sum_of_lanes(delta, lanes);
    if (to.dout_norm != nullptr) {
      dout_squares = sum_of_lanes(dout_squares, lanes);
      v_squares = sum_of_lanes(v_squares, lanes);
    }
    if (item >= items || lane % lanes != 0) continue;
    to.delta[item] = delta;
    const double log_sum = double{log_sum_exp[2 * item]} + double{log_sum_exp[2 * item + 1]};
    store_parts(log_sum == -INFINITY ? INFINITY : log_sum * kLog2E, to.log_sums2 + 2 * item);
    if (to.dout_norm != nullptr) {
      to.dout_norm[item] = norm_of(dout_squares);
      to.v_norm[item] = norm_of(v_squares);
    }
  }
}

// Adds up dk and dv over the heads that share them; a thread adds up one element of both.
template <typename T>
__global__ void attention_shared_sums(const float* of_dk, const float* of_dv, const std::int32_t* offsets,
                                      const AttentionShape shape, T* dk, T* dv) {
  const std::int64_t count = offsets[shape.samples] * shape.key_stride();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const std::int64_t row_head = i / shape.head_size, c = i % shape.head_size;  // of the heads of k and v
    float k = 0, v = 0;
    for (std::int64_t head = 0; head < shape.group; ++head) {
      const std::int64_t at = (row_head * shape.group + head) * shape.head_size + c;
      k += of_dk[at];
      v += of_dv[at];
    }
    dk[i] = from_float<T>(k);
    dv[i] = from_float<T>(v);
  }
}

// Adds up the tiles' sums of dq, dk and dv.
template <typename T>
struct SumOutputs {
  T* at[3];
};
template <typename T>
__global__ void attention_column_sums(const TileSums tiles, const std::int32_t* offsets, const AttentionShape shape,
                                      SumOutputs<T> to) {
  const std::int64_t count = shape.samples == 0 ? 0 : offsets[shape.samples] / 16 + shape.samples;
  sum_columns(tiles.at, count, 3 * shape.stride(),
              [&](std::int64_t c, float sum) { to.at[c / shape.stride()][c % shape.stride()] = sum; });
}

}  // namespace plimsoll::cuda
