#include "backend/cpu/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "tensor/half.h"

namespace plimsoll {
namespace {

// Returns all cases of rounding: ties, overflow, subnormals, infinities, NaN with few bits; an odd number of them.
std::vector<float> awkward_floats() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000U; upper += 7) {
    for (const std::uint32_t lower : {0x0U, 0x1U, 0x0FFFU, 0x1000U, 0x1001U, 0x3000U, 0x7FFFU, 0x8000U, 0x8001U}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  values.push_back(std::numeric_limits<float>::infinity());
  values.push_back(std::bit_cast<float>(0x7F800001U));
  return values;
}

class Convert : public testing::TestWithParam<DType> {};

TEST_P(Convert, RoundsAsTheDefinitionDoes) {
  const bool bf16 = GetParam() == DType::kBF16;
  const std::vector<float> values = awkward_floats();
  std::vector<std::uint16_t> halves(values.size());
  convert(values.data(), DType::kF32, halves.data(), GetParam(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t expected = bf16 ? float_to_bfloat16(values[i]) : float_to_half(values[i]);
    ASSERT_EQ(halves[i], expected) << values[i];
  }
}

TEST_P(Convert, WidensExactly) {
  const bool bf16 = GetParam() == DType::kBF16;
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(halves.size());
  convert(halves.data(), GetParam(), values.data(), DType::kF32, static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float expected = bf16 ? bfloat16_to_float(halves[i]) : half_to_float(halves[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Halves, Convert, testing::Values(DType::kBF16, DType::kF16),
                         [](const auto& parameter) { return std::string(dtype_name(parameter.param)); });

}  // namespace
}  // namespace plimsoll
