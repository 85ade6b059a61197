// The softmax of rows so wide that exponentials cost more than all else: a vocabulary's logits. In vectors of floats,
// summed in double; rows of few classes are worth double throughout (loss.cpp).
#pragma once

#include <cstdint>

namespace plimsoll {

// From so many columns on a row is wide.
inline constexpr std::int64_t kWideRow = 512;

struct WideSoftmax {
  // The largest element, NaN if there is one.
  float (*largest)(const float* row, std::int64_t count);
  // The sum of exp(row[c] - largest).
  double (*exponentials)(const float* row, std::int64_t count, float largest);
  // to[c] = factor exp(row[c] - largest); `to` may be `row`.
  void (*scaled)(const float* row, std::int64_t count, float largest, float factor, float* to);
};
// For this machine's vectors.
WideSoftmax wide_softmax();

}  // namespace plimsoll
