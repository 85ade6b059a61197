#include "tensor/dynamic_code.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll::test {
namespace {

TEST(DynamicCode, MapsAscendFromTheLeastToOne) {
  for (const CodeMap& map : {kSignedCodes, kUnsignedCodes}) {
    for (std::size_t code = 1; code < map.size(); ++code) EXPECT_LT(map[code - 1], map[code]) << code;
    EXPECT_EQ(map.back(), 1.0F);
  }
  EXPECT_EQ(kUnsignedCodes[0], 0.0F);
  EXPECT_EQ(kSignedCodes[127], 0.0F);
}

TEST(DynamicCode, NegativeNumbersMirrorAllPositiveOnesButOne) {
  for (std::size_t code = 0; code < 127; ++code) EXPECT_EQ(kSignedCodes[code], -kSignedCodes[254 - code]) << code;
}

// Counts numbers in each decade, from the paper's tree: the fraction has as many bits as the exponent leaves.
TEST(DynamicCode, EachDecadeHasTwiceTheNumbersOfTheOneBelow) {
  const auto between = [](const CodeMap& map, double low, double high) {
    int count = 0;
    for (const float value : map) count += value > low && value < high ? 1 : 0;
    return count;
  };
  for (int e = 0; e < 7; ++e) {
    const double high = std::pow(10.0, e - 6), low = high / 10;
    EXPECT_EQ(between(kSignedCodes, low, high), 1 << e);
    EXPECT_EQ(between(kSignedCodes, -high, -low), 1 << e);
    EXPECT_EQ(between(kUnsignedCodes, low, high), 2 << e);
  }
}

// These were computed by hand: 10^-6 (0.1 + 0.9/2), the topmost of 64 parts below 1, and the neighbours of 0.1.
TEST(DynamicCode, SomeNumbers) {
  EXPECT_FLOAT_EQ(kSignedCodes[128], 0.55e-6F);
  EXPECT_FLOAT_EQ(kSignedCodes[254], 0.99296875F);
  EXPECT_FLOAT_EQ(kUnsignedCodes[1], 0.325e-6F);
  EXPECT_FLOAT_EQ(kUnsignedCodes[254], 0.996484375F);
  EXPECT_FLOAT_EQ(kSignedCodes[190], 0.09859375F);
  EXPECT_FLOAT_EQ(kSignedCodes[191], 0.10703125F);
}

TEST(DynamicCode, NearestIsExactOnTheMapItself) {
  for (const CodeMap& map : {kSignedCodes, kUnsignedCodes}) {
    for (std::size_t code = 0; code < map.size(); ++code) EXPECT_EQ(nearest_code(map, map[code]), code);
  }
  EXPECT_EQ(nearest_code(kSignedCodes, -1.0F), 0);  // there is no -1
  EXPECT_EQ(nearest_code(kSignedCodes, -0.0F), 127);
  EXPECT_EQ(nearest_code(kSignedCodes, 1e-30F), 127);
  EXPECT_EQ(nearest_code(kUnsignedCodes, 1e-30F), 0);
  // A second moment is coded as 0 only if it is 0.
  EXPECT_EQ(square_code(0.0F), 0);
  for (const float x : {1e-45F, 1e-30F, 1.5e-7F}) EXPECT_EQ(square_code(x), 1) << x;
  for (std::size_t code = 0; code < kUnsignedCodes.size(); ++code) {
    EXPECT_EQ(square_code(kUnsignedCodes[code]), code);
    EXPECT_EQ(square_code(1.0001F * kUnsignedCodes[code]), nearest_code(kUnsignedCodes, 1.0001F * kUnsignedCodes[code]));
  }
}

// An update loses at most half a part of the number's decade of a moment.
TEST(DynamicCode, ErrorIsBoundedInEachDecade) {
  for (int e = 0; e < 7; ++e) {
    const double high = std::pow(10.0, e - 6);
    for (int i = 1; i < 1000; ++i) {
      const auto x = static_cast<float>(high * (0.1 + 0.9 * i / 1000.0));
      const double half_part = high * 0.45 / (1 << e) * (1 + 2e-5);  // the numbers are rounded to float
      EXPECT_LE(std::abs(x - kSignedCodes[nearest_code(kSignedCodes, x)]), half_part) << x;
      EXPECT_LE(std::abs(-x - kSignedCodes[nearest_code(kSignedCodes, -x)]), half_part) << x;
      EXPECT_LE(std::abs(x - kUnsignedCodes[nearest_code(kUnsignedCodes, x)]), half_part / 2) << x;
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
