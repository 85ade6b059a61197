// Sums over the rows of a tensor: each block stores the sums of its rows, which another kernel adds up in order, so
// that the results repeat bit for bit.
#pragma once

#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {

// partial[block][width]: sums over the block's rows.
template <int N, typename T>
__global__ void column_partial_sums(const T* from, float* partial, Rows rows) {
  sum_rows_of_block<1, N>(rows, kSumRows, partial + static_cast<std::int64_t>(blockIdx.x) * rows.columns,
                          [&](std::int64_t row, std::int64_t c, float(&sums)[1][N]) {
                            float each[N];
                            load(from + row * rows.columns + c, N, each);
                            for (int n = 0; n < N; ++n) sums[0][n] += each[n];
                          });
}

// Adds up the sums of the blocks whose rows are real. It is a template, so that several files can have it.
template <typename T>
__global__ void column_whole_sums(const float* partial, T* sums, Rows rows) {
  sum_columns(partial, row_sum_blocks(rows.real()), rows.columns,
              [&](std::int64_t column, float sum) { sums[column] = sum; });
}

inline unsigned blocks_of_sums(const Rows& rows) { return static_cast<unsigned>(row_sum_blocks(rows.capacity)); }

// Adds up what a kernel of blocks_of_sums has stored in `partial`.
inline void start_whole_sums(const Context& context, const Rows& rows, const float* partial, float* sums) {
  launch(context.stream(), column_whole_sums<float>, {.blocks = column_blocks(rows.columns), .threads = kColumnThreads},
         partial, sums, rows);
}

// `partial` has column_sums_scratch_bytes.
template <typename T>
void start_column_sums(const Context& context, const T* from, const Rows& rows, float* partial, float* sums) {
  for_pack<T>(rows.columns, [&](auto pack) {
    launch(context.stream(), column_partial_sums<pack(), T>,
           {.blocks = blocks_of_sums(rows), .threads = kRowThreads, .blocks_y = column_blocks(rows.columns / pack())},
           from, partial, rows);
  });
  start_whole_sums(context, rows, partial, sums);
}

}  // namespace plimsoll::cuda
