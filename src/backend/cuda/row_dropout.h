// Dropout for packs of a row; base/dropout.h has the rule.
#pragma once

#include "backend/cuda/launch.h"
#include "base/dropout.h"

namespace plimsoll::cuda {

struct RowDropout {
  const std::int32_t* row_keys = nullptr;  // (sample, token) of each row; nullptr: nothing is dropped
  const std::int32_t* key = nullptr;
  std::uint32_t site = 0, threshold = 0;
  float scale = 1;

  // Returns the random bits of the eight columns around `column`.
  __device__ PhiloxOutput words(std::int64_t row, std::int64_t column) const {
    return dropout_words({static_cast<std::uint32_t>(row_keys[2 * row + 1]), static_cast<std::uint32_t>(column / 8),
                          site, static_cast<std::uint32_t>(row_keys[2 * row])},
                         {static_cast<std::uint32_t>(key[0]), static_cast<std::uint32_t>(key[1])});
  }
  __device__ float kept(float value, std::uint32_t bits) const { return bits >= threshold ? value * scale : 0.0F; }

  // Returns N neighbours of a row after dropout, from `column` on, a multiple of N.
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column, float (&values)[N]) const {
    static_assert(N == 1 || N == 4 || N == 8);
    const PhiloxOutput drawn = words(row, column);
    if constexpr (N == 8) {
#pragma unroll
      for (unsigned i = 0; i < 8; ++i) values[i] = kept(values[i], dropout_bits(drawn, i));
    } else if constexpr (N == 4) {
      const bool upper = column % 8 != 0;
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        values[i] = kept(values[i], upper ? dropout_bits(drawn, 4 + i) : dropout_bits(drawn, i));
      }
    } else {
      const auto which = static_cast<unsigned>(column % 8);
#pragma unroll
      for (unsigned i = 0; i < 8; ++i) {  // the bound is constant, so that the words stay in registers
        if (i == which) values[0] = kept(values[0], dropout_bits(drawn, i));
      }
    }
  }
};

}  // namespace plimsoll::cuda
