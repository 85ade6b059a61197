#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
std::size_t bytes_of(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(T);
}

}  // namespace

std::size_t bias_grad_scratch_bytes(const TensorType& dy) {
  return bytes_of<float>(row_sum_blocks(dy.shape[0]) * dy.shape[1]);
}

std::size_t layer_norm_grad_scratch_bytes(const TensorType& dy) {
  return bytes_of<float>(2 * row_sum_blocks(dy.shape[0]) * dy.shape[1]);
}

std::size_t cross_entropy_scratch_bytes(const TensorType& logits) {
  return bytes_of<double>(row_sum_blocks(logits.shape[0]));
}

std::size_t span_cross_entropy_scratch_bytes(const TensorType& positions) {
  return bytes_of<double>(positions.shape.elements());
}

std::size_t sum_squares_scratch_bytes(const TensorType& x) {
  return bytes_of<double>(element_sum_blocks(x.shape.elements()));
}

}  // namespace plimsoll::cuda
