// The scratch of kernels that sum over rows: each block leaves its partial sums there. How many blocks there are
// depends on the shape alone, so that sums repeat bit for bit on every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/scratch.h"
#include "graph/graph.h"

namespace plimsoll::cuda {

inline constexpr std::int64_t kSumRows = 64;        // rows that a block adds up
inline constexpr std::int64_t kSumElements = 8192;  // elements that a block adds up in sum_squares

constexpr std::int64_t row_sum_blocks(std::int64_t rows) { return (rows + kSumRows - 1) / kSumRows; }
constexpr std::int64_t element_sum_blocks(std::int64_t elements) {
  return (elements + kSumElements - 1) / kSumElements;
}

// This is Backend::fewest_loss_rows. Each chunk reads and writes the whole gradient of a vocabulary's weight, so with
// fewer rows its product would wait for memory.
inline constexpr std::int64_t kLossRows = 256;
// Rows of more classes are a vocabulary's: a block takes one at a time, and stores its loss.
constexpr bool has_many_classes(std::int64_t classes) { return classes > 512; }
constexpr std::int64_t loss_blocks(std::int64_t rows, std::int64_t classes) {
  return has_many_classes(classes) ? rows : row_sum_blocks(rows);
}

// add_partial_sums: how many partial sums one launch adds up, and how many sums each of them may have, side by side. A
// launch has 4 KiB of arguments.
inline constexpr int kMostParts = 80, kMostSumsInParts = 3;

// Returns how many partial sums the node's kernel makes, which may be its output (graph/partial_sums.h); 0: its kernels
// only make whole sums.
std::int64_t possible_partial_sums(const Graph& graph, const Node& node);

// True if one kernel computes both dx and the sums over rows of layer_norm_grad: a warp holds whole rows, and the sums
// of their columns, in registers.
constexpr bool holds_rows(std::int64_t width) { return width % 4 == 0 && width <= 1024; }

// The number of its blocks: each takes four rows at a time, and at most kNormGradBlocks share the rows, two for each
// multiprocessor of a large GPU; if another kernel computes the sums, as above.
inline constexpr std::int64_t kNormGradRows = 4, kNormGradBlocks = 256;
constexpr std::int64_t norm_grad_blocks(std::int64_t rows, std::int64_t width) {
  if (!holds_rows(width)) return row_sum_blocks(rows);
  const std::int64_t blocks = (rows + kNormGradRows - 1) / kNormGradRows;
  return blocks < kNormGradBlocks ? blocks : kNormGradBlocks;
}

// How many tensors one launch casts: it has 4 KiB of arguments.
inline constexpr int kMostCasts = 160;
// float [blocks][width]
std::size_t column_sums_scratch_bytes(const TensorType& dy);
// float [norm_grad_blocks][2][width]; [norm_grad_blocks][3][width] with the column sums of the gradient
std::size_t layer_norm_grad_scratch_bytes(const TensorType& dy, bool column_sums);
// double [blocks]
std::size_t cross_entropy_scratch_bytes(const TensorType& logits);
std::size_t span_cross_entropy_scratch_bytes(const TensorType& positions);  // double [samples][columns]
// contrastive_loss keeps here its rows divided by their lengths, the lengths, the logarithms of the rows' sums, and
// what each row adds to the loss.
struct ContrastiveScratch {
  explicit ContrastiveScratch(const TensorType& x)
      : units(layout.add<float>(x.shape.elements())),
        lengths(layout.add<float>(x.shape[0])),
        log_sums(layout.add<double>(x.shape[0])),
        losses(layout.add<double>(x.shape[0])) {}

  ScratchLayout layout;
  std::size_t units, lengths, log_sums, losses;
};
// sum_squares keeps the sums of each tensor's blocks here; one block needs none.
struct SumSquaresScratch {
  SumSquaresScratch(const Graph& graph, const Node& node);

  ScratchLayout layout;
  std::vector<std::size_t> partials{};  // double [blocks] of each tensor
};
// How many tensors one launch sums, and for how many tensors one launch adds up the blocks: it has 4 KiB of arguments.
inline constexpr int kMostSquares = 96;
// How many of their sums one launch of gradient_norm adds up.
inline constexpr std::size_t kMostAddedSquares = 256;
// double [1]
inline constexpr std::size_t kGradientNormScratchBytes = sizeof(double);

}  // namespace plimsoll::cuda
