#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

// Implements the formats' definitions in double, slowly and simply.
double half_by_definition(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 0x1FU);
  const int mantissa = static_cast<int>(bits & 0x3FFU);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double bfloat16_by_definition(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 7 & 0xFFU);
  const int mantissa = static_cast<int>(bits & 0x7FU);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 255) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -133);
  return sign * std::ldexp(128 + mantissa, exponent - 134);
}

struct Format {
  const char* name;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  double (*by_definition)(unsigned);
  unsigned infinity;
};

class Narrow : public testing::TestWithParam<Format> {};

TEST_P(Narrow, EveryValueWidensToItsDefinitionAndComesBack) {
  const Format& format = GetParam();
  for (unsigned bits = 0; bits <= 0xFFFF; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const float wide = format.widen(narrow);
    const double expected = format.by_definition(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      const std::uint16_t back = format.narrow(wide);
      ASSERT_TRUE(std::isnan(format.widen(back))) << bits;
      ASSERT_EQ(back & 0x8000U, bits & 0x8000U);
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), expected) << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << bits;
    ASSERT_EQ(format.narrow(wide), narrow) << bits;
  }
}

// Tests between every two neighbours: just below the middle rounds down, the middle to the even one, just above it up.
// The last interval's upper neighbour is infinity, as if it were one step further.
TEST_P(Narrow, RoundsToNearestEvenBetweenAllNeighbours) {
  const Format& format = GetParam();
  for (unsigned low = 0; low < format.infinity; ++low) {
    const double below = format.by_definition(low);
    const double above =
        low + 1 == format.infinity ? 2 * below - format.by_definition(low - 1) : format.by_definition(low + 1);
    const double middle_exactly = (below + above) / 2;
    const auto middle = static_cast<float>(middle_exactly);
    ASSERT_EQ(static_cast<double>(middle), middle_exactly);
    const unsigned even = low % 2 == 0 ? low : low + 1;
    for (const unsigned sign : {0U, 0x8000U}) {
      const float s = sign != 0 ? -1.0F : 1.0F;
      ASSERT_EQ(format.narrow(s * std::nextafter(middle, 0.0F)), sign | low) << low;
      ASSERT_EQ(format.narrow(s * middle), sign | even) << low;
      ASSERT_EQ(format.narrow(s * std::nextafter(middle, HUGE_VALF)), sign | (low + 1)) << low;
    }
  }
}

TEST_P(Narrow, OverflowsToInfinityAndUnderflowsToZero) {
  const Format& format = GetParam();
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::infinity()), format.infinity);
  EXPECT_EQ(format.narrow(-std::numeric_limits<float>::max()), 0x8000U | format.infinity);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::denorm_min()), 0U);
  EXPECT_EQ(format.narrow(-0.0F), 0x8000U);
}

INSTANTIATE_TEST_SUITE_P(Formats, Narrow,
                         testing::Values(Format{"half", half_to_float, float_to_half, half_by_definition, 0x7C00},
                                         Format{"bfloat16", bfloat16_to_float, float_to_bfloat16,
                                                bfloat16_by_definition, 0x7F80}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace plimsoll
