// The softmax of rows so wide that exponentials dominate the cost: a vocabulary's logits. It computes vectors of floats
// and sums in double; rows of few classes can afford double throughout (loss.cpp).
#pragma once

#include <cstdint>

namespace plimsoll {

// A row is wide from this many columns on.
inline constexpr std::int64_t kWideRow = 512;

struct WideSoftmax {
  // Returns the largest element, NaN if there is one.
  float (*largest)(const float* row, std::int64_t count);
  // Returns the sum of exp(row[c] - largest).
  double (*exponentials)(const float* row, std::int64_t count, float largest);
  // to[c] = factor exp(row[c] - largest); `to` may be `row`.
  void (*scaled)(const float* row, std::int64_t count, float largest, float factor, float* to);
};
// Returns the functions for this machine's vectors.
WideSoftmax wide_softmax();

}  // namespace plimsoll
