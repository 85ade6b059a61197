#include "tensor/block_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/tensor.h"

namespace plimsoll {
namespace {

std::vector<float> noise(std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t state = 7;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = (static_cast<float>(state >> 8) * 0x1p-23F - 1) * 0.05F;
  }
  return values;
}

class BlockCode : public testing::TestWithParam<DType> {};

TEST_P(BlockCode, ComesBackWithinHalfAStep) {
  for (const std::size_t count : {1U, 63U, 64U, 65U, 200U}) {
    const std::vector<float> values = noise(count);
    std::vector<std::byte> bytes(coded_row_bytes(GetParam(), static_cast<std::int64_t>(count)));
    encode_row(GetParam(), values, bytes.data());
    std::vector<float> back(count);
    decode_row(GetParam(), bytes.data(), 0, back);
    for (std::size_t i = 0; i < count; ++i) {
      float absmax = 0;
      for (std::size_t j = i / 64 * 64; j < std::min(count, i / 64 * 64 + 64); ++j) {
        absmax = std::max(absmax, std::abs(values[j]));
      }
      // The limit is half of the widest gap between codes: 1/127, and between -1 and -0.696.
      const float half = GetParam() == DType::kQ8 ? 0.5F / 127 : 0.5F * (1 - 0.6961F);
      ASSERT_LE(std::abs(back[i] - values[i]), half * absmax * 1.0001F) << count << ' ' << i;
    }
    for (std::size_t first = 0; first < count; first += 37) {
      std::vector<float> part(std::min<std::size_t>(50, count - first));
      decode_row(GetParam(), bytes.data(), static_cast<std::int64_t>(first), part);
      for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], back[first + i]);
    }
    // Coding decoded values again changes nothing.
    std::vector<std::byte> again(bytes.size());
    encode_row(GetParam(), back, again.data());
    std::vector<float> twice(count);
    decode_row(GetParam(), again.data(), 0, twice);
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(twice[i], back[i], std::abs(back[i]) * 1e-6F);
  }
}

TEST_P(BlockCode, KeepsZerosAndTheLargest) {
  std::vector<float> values(70, 0.0F);
  values[3] = -0.25F;
  values[69] = 8;
  std::vector<std::byte> bytes(coded_row_bytes(GetParam(), 70));
  encode_row(GetParam(), values, bytes.data());
  std::vector<float> back(70);
  decode_row(GetParam(), bytes.data(), 0, back);
  EXPECT_EQ(back, values);
}

// A row that LLM.int8() coded: its factor is that of every block, however small the numbers there are.
TEST(BlockCodeOfRows, ComesBackByTheRowsFactor) {
  constexpr std::size_t kColumns = 200;
  const float factor = 0.37F;
  std::vector<float> values(kColumns), back(kColumns);
  std::vector<int> codes(kColumns);
  for (std::size_t i = 0; i < kColumns; ++i) {
    codes[i] = i < 64 ? static_cast<int>(i % 7) - 3 : static_cast<int>(i * 2 % 255) - 127;
    values[i] = static_cast<float>(codes[i]) * factor / 127;
  }
  ASSERT_TRUE(std::ranges::any_of(codes, [](int code) { return std::abs(code) == 127; }));
  std::vector<std::byte> bytes(coded_row_bytes(DType::kQ8, kColumns));
  encode_row(DType::kQ8, values, bytes.data(), Factor::kOfRow);
  decode_row(DType::kQ8, bytes.data(), 0, back);
  for (std::size_t i = 0; i < kColumns; ++i) {
    const auto code = static_cast<std::int8_t>(bytes[i / 64 * code_block_bytes(DType::kQ8) + sizeof(float) + i % 64]);
    EXPECT_EQ(code, codes[i]) << i;
    EXPECT_NEAR(back[i], values[i], std::abs(values[i]) * 1e-6F) << i;
  }
}

TEST_P(BlockCode, TypesKnowTheirBytes) {
  const std::size_t block = GetParam() == DType::kQ8 ? 68 : 36;
  EXPECT_EQ((TensorType{GetParam(), {3, 128}}.bytes()), 3 * 2 * block);
  EXPECT_EQ((TensorType{GetParam(), {3, 130}}.bytes()), 3 * 3 * block);
  EXPECT_EQ((TensorType{GetParam(), {0, 130}}.bytes()), 0U);
}

INSTANTIATE_TEST_SUITE_P(Codes, BlockCode, testing::Values(DType::kQ8, DType::kNF4),
                         [](const auto& parameter) { return std::string(dtype_name(parameter.param)); });

TEST(BlockCode, PicksTheNearestNormalFloat) {
  for (int i = -1000; i <= 1000; ++i) {
    const std::vector<float> values = {1, static_cast<float>(i) / 1000};
    std::vector<std::byte> bytes(coded_row_bytes(DType::kNF4, 2));
    encode_row(DType::kNF4, values, bytes.data());
    std::vector<float> back(2);
    decode_row(DType::kNF4, bytes.data(), 0, back);
    for (const float other : kNormalFloats) ASSERT_LE(std::abs(back[1] - values[1]), std::abs(other - values[1]));
  }
}

}  // namespace
}  // namespace plimsoll
