#include "backend/cuda/sizes/sums.h"

#include <algorithm>

#include "backend/cuda/sizes/attention.h"
#include "graph/partial_sums.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
std::size_t bytes_of(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(T);
}

}  // namespace

std::int64_t possible_partial_sums(const Graph& graph, const Node& node) {
  if (!summed_outputs(node)) return 0;
  const Shape& rows = graph.type(node.inputs[0]).shape;  // of dy
  switch (node.op) {
    case Op::kLayerNormGrad:
      return holds_rows(rows[1]) ? norm_grad_blocks(rows[0], rows[1]) : 0;
    case Op::kRmsNormGrad:
      return row_sum_blocks(rows[0]) * (rows[1] / graph.type(node.inputs[3]).shape[0]);
    case Op::kAttentionGrad:
      return AttentionGradScratch(graph, node, attention_shape(graph, node)).tiles;
    default:
      return row_sum_blocks(rows[0]);
  }
}

std::size_t column_sums_scratch_bytes(const TensorType& dy) {
  return bytes_of<float>(row_sum_blocks(dy.shape[0]) * dy.shape[1]);
}

std::size_t layer_norm_grad_scratch_bytes(const TensorType& dy, bool column_sums) {
  const std::int64_t width = dy.shape[1];
  return bytes_of<float>((column_sums ? 3 : 2) * norm_grad_blocks(dy.shape[0], width) * width);
}

std::size_t cross_entropy_scratch_bytes(const TensorType& logits) {
  const std::int64_t rows = logits.shape[0];
  return bytes_of<double>(loss_blocks(rows, rows == 0 ? 0 : logits.shape.elements() / rows));
}

std::size_t span_cross_entropy_scratch_bytes(const TensorType& positions) {
  return bytes_of<double>(positions.shape.elements());
}

SumSquaresScratch::SumSquaresScratch(const Graph& graph, const Node& node) {
  for (const ValueId input : node.inputs) {
    const std::int64_t blocks = element_sum_blocks(graph.type(input).shape.elements());
    partials.push_back(layout.add<double>(node.row_count != kNoValue ? std::max<std::int64_t>(blocks, 1)
                                          : blocks > 1               ? blocks
                                                                     : 0));
  }
}

}  // namespace plimsoll::cuda
