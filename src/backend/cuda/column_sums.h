// Sums over the rows of a tensor: each block stores the sums of its rows, which another kernel adds up in order, so
// that the results repeat bit for bit. That kernel is the node's own, or that of a kAddPartialSums
// (graph/partial_sums.h).
#pragma once

#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"
#include "backend/scratch.h"
#include "graph/partial_sums.h"

namespace plimsoll::cuda {

// Says where a node's blocks store their sums: in scratch, or in the output that has them in parts.
class PartialPlace {
 public:
  PartialPlace(const Graph& graph, const Node& node) {
    const std::int64_t parts = partial_sums(node);
    check(parts == 0 || parts == possible_partial_sums(graph, node), "an output has the sums of all blocks");
    if (parts > 0) output_ = static_cast<int>(summed_outputs(node).value().first);
  }
  // True if another node adds the sums up.
  bool is_output() const { return output_ >= 0; }
  float* of(const KernelArguments& a) const {
    return is_output() ? output<float>(a, static_cast<std::size_t>(output_)) : scratch_at<float>(a, 0);
  }
  // Returns how many blocks of kSumRows take the rows of the first input. An output gets the sums of all blocks, even
  // of those whose rows cannot be real.
  unsigned blocks(const KernelArguments& a) const {
    const std::int64_t capacity = a.inputs[0].shape()[0];
    return static_cast<unsigned>(row_sum_blocks(is_output() ? capacity : a.bound(capacity)));
  }

 private:
  int output_ = -1;
};

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

// Adds up what the blocks of the rows have stored in `partial`.
inline void start_whole_sums(const Context& context, const Rows& rows, const float* partial, float* sums) {
  launch(context.stream(), column_whole_sums<float>, {.blocks = column_blocks(rows.columns), .threads = kColumnThreads},
         partial, sums, rows);
}

// `partial` has column_sums_scratch_bytes for `blocks` of rows.
template <typename T>
void start_partial_sums(const Context& context, const T* from, const Rows& rows, unsigned blocks, float* partial) {
  for_pack<T>(rows.columns, [&](auto pack) {
    launch(context.stream(), column_partial_sums<pack(), T>,
           {.blocks = blocks, .threads = kRowThreads, .blocks_y = column_blocks(rows.columns / pack())}, from, partial,
           rows);
  });
}
template <typename T>
void start_column_sums(const Context& context, const T* from, const Rows& rows, float* partial, float* sums) {
  start_partial_sums(context, from, rows, static_cast<unsigned>(row_sum_blocks(rows.capacity)), partial);
  start_whole_sums(context, rows, partial, sums);
}

}  // namespace plimsoll::cuda
