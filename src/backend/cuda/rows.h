// Kernels in which each warp takes a row, and copies of rows.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/packs.h"

namespace plimsoll::cuda {

inline constexpr unsigned kRowThreads = 256, kRowWarps = kRowThreads / kWarp;

// Return the warp's first row, and the distance to its next ones.
__device__ inline std::int64_t first_row() {
  return static_cast<std::int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
}
__device__ inline std::int64_t row_stride() { return static_cast<std::int64_t>(gridDim.x) * kRowWarps; }
__device__ inline unsigned lane_index() { return threadIdx.x % kWarp; }

inline unsigned row_blocks(std::int64_t rows) { return blocks_for(rows, kRowWarps); }

// Writes zeros to this warp's rows from `row` on, after the real ones, as far as products read and write
// (sizes/tails.h).
template <typename T>
__device__ void clear_rows(T* y, const Rows& rows, std::int64_t row, std::int64_t end, std::int64_t stride) {
  for (; row < end; row += stride) {
    for (std::int64_t c = lane_index(); c < rows.columns; c += kWarp) y[row * rows.columns + c] = from_float<T>(0);
  }
}
// Does the same if warps take rows from first_row() on.
template <typename T>
__device__ void clear_tail(T* y, const Rows& rows) {
  const std::int64_t behind = rows.real() - first_row(),
                     turns = behind > 0 ? (behind + row_stride() - 1) / row_stride() : 0;
  clear_rows(y, rows, first_row() + turns * row_stride(), rows.capacity, row_stride());
}
// Does the same if a block takes `each` rows, and its warps every eighth of them.
template <typename T>
__device__ void clear_tail_of_block(T* y, const Rows& rows, std::int64_t each) {
  const std::int64_t first = blockIdx.x * each, real = rows.real();
  const std::int64_t end = first + each < rows.capacity ? first + each : rows.capacity;
  clear_rows(y, rows, (first > real ? first : real) + threadIdx.x / kWarp, end, kRowWarps);
}

// to[sum][width]: kSums sums over rows [blockIdx.x * each, ... + each), those that are real, with N columns per lane; a
// warp takes every eighth row. add(row, column, sums) adds a row's values to the lane's sums. All threads of the block
// must call it.
template <int kSums, int N, typename Add>
__device__ void sum_rows_of_block(const Rows& rows, std::int64_t each, float* to, const Add& add,
                                  unsigned column_block = blockIdx.y) {
  PLIMSOLL_SHARED float parts[kRowWarps][kSums][kWarp * N];
  const std::int64_t first = blockIdx.x * each, real = rows.real(), end = first + each < real ? first + each : real;
  const std::int64_t c = (static_cast<std::int64_t>(column_block) * kWarp + lane_index()) * N;
  const unsigned warp = threadIdx.x / kWarp;
  float sums[kSums][N] = {};
  if (c < rows.columns) {
    for (std::int64_t row = first + warp; row < end; row += kRowWarps) add(row, c, sums);
  }
  for (int sum = 0; sum < kSums; ++sum) {
    for (int n = 0; n < N; ++n) parts[warp][sum][lane_index() * N + n] = sums[sum][n];
  }
  __syncthreads();
  if (warp > 0 || c >= rows.columns) return;
  for (int sum = 0; sum < kSums; ++sum) {
    for (unsigned part = 1; part < kRowWarps; ++part) {
      for (int n = 0; n < N; ++n) sums[sum][n] += parts[part][sum][lane_index() * N + n];
    }
    store(sums[sum], N, to + sum * rows.columns + c);
  }
}

// Sums over the rows of values[rows][width], one column per lane and kWarp columns per block; to(column, sum) gets
// each. The block's warps share the rows, and each reads several at once: a single warp would wait for memory at every
// row. All kColumnThreads of a block must call it. Rows of zeros at the end do not change a bit.
inline constexpr unsigned kColumnThreads = 512, kColumnWarps = kColumnThreads / kWarp;
template <typename To>
__device__ inline void sum_columns(const float* values, std::int64_t rows, std::int64_t width, const To& to,
                                   unsigned column_block = blockIdx.x) {
  PLIMSOLL_SHARED double sums[kColumnWarps][kWarp];
  const std::int64_t c = static_cast<std::int64_t>(column_block) * kWarp + lane_index();
  const unsigned warp = threadIdx.x / kWarp;
  double sum = 0;
  if (c < width) {
    constexpr int kAtOnce = 8;
    std::int64_t row = warp;
    for (; row + (kAtOnce - 1) * kColumnWarps < rows; row += kAtOnce * kColumnWarps) {
      float some[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) some[i] = values[(row + i * kColumnWarps) * width + c];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) sum += double{some[i]};
    }
    for (; row < rows; row += kColumnWarps) sum += double{values[row * width + c]};
  }
  sums[warp][lane_index()] = sum;
  __syncthreads();
  if (warp > 0 || c >= width) return;
  for (unsigned each = 1; each < kColumnWarps; ++each) sum += sums[each][lane_index()];
  to(c, static_cast<float>(sum));
}
inline unsigned column_blocks(std::int64_t width) { return static_cast<unsigned>((width + kWarp - 1) / kWarp); }

// A copy moves bytes of any type, in the largest unit that divides all rows and parts of rows.
using Unit16 = Pack<std::uint32_t, 4>;

// Calls make(unit, its bytes) with the unit in which parts of `bytes` are copied.
template <typename Make>
void for_unit(std::size_t bytes, const Make& make) {
  if (bytes % 16 == 0) {
    make(Unit16{});
  } else if (bytes % 4 == 0) {
    make(std::uint32_t{});
  } else {
    make(std::uint16_t{});
  }
}

// The row that another one is copied from; zeros if there is none.
template <typename Unit>
struct RowSource {
  const Unit* from;
  __device__ Unit operator()(std::int64_t unit) const { return from == nullptr ? Unit{} : from[unit]; }
};

// y[row] = source(row)(unit), for the units of the real rows; rows.columns counts units.
template <typename Unit, typename Source>
__global__ void copy_rows(Source source, Unit* y, Rows rows) {
  const std::int64_t units = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const auto from = source(row);
    for (std::int64_t unit = lane_index(); unit < units; unit += kWarp) y[row * units + unit] = from(unit);
  }
}

// Copies into the first output.
template <typename Unit, typename Source>
void launch_copy(const Context& context, const KernelArguments& a, const Source& source) {
  Rows rows = rows_of(a, a.outputs[0]);
  rows.columns = rows.columns * static_cast<std::int64_t>(dtype_bytes(a.outputs[0].dtype())) /
                 static_cast<std::int64_t>(sizeof(Unit));
  launch(context.stream(), copy_rows<Unit, Source>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
         source, static_cast<Unit*>(a.outputs[0].raw()), rows);
}

}  // namespace plimsoll::cuda
