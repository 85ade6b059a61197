#include "tensor/split_float.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/half.h"

namespace plimsoll {
namespace {

// Tests every upper half with the lower halves where the rounding changes.
TEST(SplitFloat, GivesEveryFloatBack) {
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t lower : {0x0U, 0x1U, 0x1234U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(join_float(split_float(value))), upper << 16 | lower);
    }
  }
}

TEST(SplitFloat, HighIsTheNearestBfloat16) {
  for (std::uint32_t upper = 0; upper < 0x7F7FU; ++upper) {
    for (const std::uint32_t lower : {0x0U, 0x7FFFU, 0x8000U, 0x8001U}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      const double below = bfloat16_to_float(static_cast<std::uint16_t>(upper));
      const double above = bfloat16_to_float(static_cast<std::uint16_t>(upper + 1));
      const double found = bfloat16_to_float(split_float(value).high);
      ASSERT_EQ(std::abs(found - value), std::min(value - below, above - value)) << upper << ' ' << lower;
      if (lower == 0x8000U) {
        ASSERT_EQ(found, above);  // away from zero
      }
      ASSERT_EQ(split_float(-value).high, split_float(value).high | 0x8000U);
    }
  }
}

}  // namespace
}  // namespace plimsoll
