// Compares decode_rows with the reference, decode_row, on every target of this machine: vectors of different widths
// look codes up in different ways.
#include "backend/cpu/decode.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/every_target.h"
#include "tensor/block_code.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

class Decode : public test::EveryTarget {};

constexpr std::int64_t kRows = 19, kColumns = 200;  // the last block of a row is short

// Coded rows in which every code occurs.
std::vector<std::byte> coded_matrix(DType dtype) {
  std::vector<std::byte> matrix(static_cast<std::size_t>(kRows) * coded_row_bytes(dtype, kColumns));
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<float> values(kColumns);
    for (std::int64_t i = 0; i < kColumns; ++i) {
      values[static_cast<std::size_t>(i)] = static_cast<float>((row * 31 + i * 37) % 255 - 127) / 127 * 0.3F;
    }
    encode_row(dtype, values, matrix.data() + static_cast<std::size_t>(row) * coded_row_bytes(dtype, kColumns));
  }
  return matrix;
}

TEST_P(Decode, HasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kQ8, DType::kNF4}) {
    const std::vector<std::byte> matrix = coded_matrix(dtype);
    for (const std::int64_t first : {std::int64_t{0}, kCodeBlock, 3 * kCodeBlock}) {
      const std::int64_t count = kColumns - first;
      const auto elements = static_cast<std::size_t>(kRows * count);
      std::vector<float> expected(elements), found(elements);
      std::vector<std::uint16_t> halves(elements);
      decode_rows(dtype, matrix.data(), kColumns, 0, kRows, first, count, found.data(), DType::kF32);
      decode_rows(dtype, matrix.data(), kColumns, 0, kRows, first, count, halves.data(), DType::kBF16);
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::byte* const from = matrix.data() + static_cast<std::size_t>(row) * coded_row_bytes(dtype, kColumns);
        decode_row(dtype, from, first,
                   std::span(expected).subspan(static_cast<std::size_t>(row * count), static_cast<std::size_t>(count)));
      }
      EXPECT_EQ(found, expected) << dtype_name(dtype) << " from column " << first;
      for (std::size_t i = 0; i < elements; ++i) {
        ASSERT_EQ(halves[i], float_to_bfloat16(expected[i])) << dtype_name(dtype) << ", element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Decode, test::all_targets(), test::target_name);

}  // namespace
}  // namespace plimsoll
