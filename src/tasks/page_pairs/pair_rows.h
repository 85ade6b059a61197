// The rows of a pair's two samples, as a batch gives them one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "data/batch.h"
#include "tensor/tensor.h"

namespace plimsoll {

// Returns a sample's row of f32[B, C].
inline std::span<const float> row_of(const TensorView& logits, std::int64_t sample) {
  const auto width = static_cast<std::size_t>(logits.shape()[1]);
  return logits.span<float>().subspan(static_cast<std::size_t>(sample) * width, width);
}
inline bool is_finite(std::span<const float> row) {
  return std::ranges::all_of(row, [](float value) { return std::isfinite(value); });
}
// Returns whether it is the first page of its pair; the pair's logits are in that page's row.
inline bool is_first_of_pair(const Batch& batch, std::int64_t sample) {
  return batch.references()[static_cast<std::size_t>(sample)].window == 0;
}

// Returns the row divided by its length.
inline std::vector<float> unit_of(std::span<const float> row) {
  const double squares = std::inner_product(row.begin(), row.end(), row.begin(), 0.0, std::plus<>(),
                                            [](double a, double b) { return a * b; });
  const double length = std::max(std::sqrt(squares), 1e-12);
  std::vector<float> unit(row.begin(), row.end());
  for (float& value : unit) value = static_cast<float>(value / length);
  return unit;
}
inline double cosine_of(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](double x, double y) { return x * y; });
}

inline std::vector<double> softmax_of(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(std::exp(logit - largest));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) value /= sum;
  return result;
}

}  // namespace plimsoll
