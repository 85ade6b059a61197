#include "backend/cuda/sizes/adafactor.h"

#include <algorithm>

namespace plimsoll::cuda {

AdafactorBlocks::AdafactorBlocks(const Graph& graph, const Node& node) {
  const MatrixStack stack = matrix_stack(graph, node);
  const UpdateForm form = update_form(graph, node);
  const TensorType& gradient = graph.type(node.inputs[form.gradient_values()]);
  check(gradient.dtype == DType::kF32, "gradients of parameters are F32");
  width = stack.columns;
  matrix_rows = stack.rows;
  matrices = stack.matrices;
  summed_rows = form.by_rows ? gradient.shape[0] : matrix_rows;
  block_rows = std::max(kLeastRows, (summed_rows + kMostBlocks - 1) / kMostBlocks);
  matrix_blocks = (summed_rows + block_rows - 1) / block_rows;
}

AdafactorScratch::AdafactorScratch(const AdafactorBlocks& blocks)
    : row_squares(layout.add<double>(blocks.matrices * blocks.matrix_rows)),
      column_squares(layout.add<double>(blocks.blocks() * blocks.width)),
      unit_squares(layout.add<double>(blocks.unit_blocks())),
      mean_of_rows(layout.add<float>(blocks.matrices)),
      column_factors(layout.add<float>(blocks.matrices * blocks.width)),
      divisor(layout.add<float>(1)) {}

}  // namespace plimsoll::cuda
