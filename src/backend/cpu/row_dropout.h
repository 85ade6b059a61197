// RowDropout: the dropout of a node's rows in the form that kernels use; base/dropout.h has the rule.
#pragma once

#include <cstdint>

#include "base/dropout.h"
#include "tensor/tensor.h"

namespace plimsoll {

struct RowDropout {
  const std::int32_t* row_keys = nullptr;  // (sample, token) of each row; nullptr: nothing is dropped
  PhiloxKey key{};
  std::uint32_t site = 0, threshold = 0;
  float scale = 1;

  // Returns the same for the rows from this one on.
  RowDropout from(std::int64_t row) const {
    RowDropout rest = *this;
    if (row_keys != nullptr) rest.row_keys += 2 * row;
    return rest;
  }
};

// `row_keys` i32[n, 2] and `key` i32[2] are the inputs of those names.
inline RowDropout row_dropout(const TensorView& row_keys, const TensorView& key, double p, std::uint32_t site) {
  const std::int32_t* const words = key.data<std::int32_t>();
  return {.row_keys = row_keys.data<std::int32_t>(),
          .key = {static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(words[1])},
          .site = site,
          .threshold = dropout_threshold(p),
          .scale = static_cast<float>(dropout_scale(p))};
}

}  // namespace plimsoll
