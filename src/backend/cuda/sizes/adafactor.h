// The scratch of adafactor and adafactor_rows, and the blocks of rows that their kernels sum in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/scratch.h"
#include "graph/graph.h"
#include "graph/update_form.h"

namespace plimsoll::cuda {

// A stack of matrices, and the blocks of rows that are summed in each: at least kLeastRows a block, at most
// kMostBlocks. If the gradient is given by rows, the blocks are of its rows.
struct AdafactorBlocks {
  static constexpr std::int64_t kLeastRows = 16, kMostBlocks = 512;
  static constexpr std::int64_t kUnitRows = 32;  // rows that a block adds up for the root mean square

  AdafactorBlocks(const Graph& graph, const Node& node);

  std::int64_t blocks() const { return matrices * matrix_blocks; }
  std::int64_t gradient_rows() const { return matrices * summed_rows; }
  std::int64_t unit_blocks() const { return (gradient_rows() + kUnitRows - 1) / kUnitRows; }

  std::int64_t width, matrix_rows, matrices, summed_rows, block_rows, matrix_blocks;
};

struct AdafactorScratch {
  explicit AdafactorScratch(const AdafactorBlocks& blocks);

  ScratchLayout layout{};
  std::size_t row_squares;     // double [rows of the table]
  std::size_t column_squares;  // double [blocks][width]
  std::size_t unit_squares;    // double [unit blocks]
  std::size_t mean_of_rows;    // float [matrices]
  std::size_t column_factors;  // float [matrices][width]
  std::size_t divisor;         // float [1]
};

}  // namespace plimsoll::cuda
