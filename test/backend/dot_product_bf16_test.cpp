// Compares products of pairs of bfloat16 with simple loops, exactly, because small whole numbers have no rounding.
// Products whose pairs fill whole tiles are made by AMX, emulated where the processor lacks it, and by AVX512_BF16.
#include "backend/cpu/dot_product_bf16.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/amx_emulator.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/tile_product_bf16.h"
#include "base/philox.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr float kUntouched = 1e9F;

float small_number(std::int64_t at, std::uint32_t which) {
  return static_cast<float>(philox4x32({static_cast<std::uint32_t>(at), which, 0, 0}, {5, 6})[0] % 17) - 8;
}

struct Case {
  std::int64_t rows, pairs, columns;
  DotSum sum;
  bool factors;
};

// A and B are inside larger rows of noise, and C precedes elements that must not change.
void expect_exact(const Case& of) {
  const std::int64_t a_stride = 2 * of.pairs + 6, b_stride = of.columns + 16, c_stride = of.columns + 16;
  std::vector<std::uint16_t> a(static_cast<std::size_t>(of.rows * a_stride));
  std::vector<std::uint32_t> b(static_cast<std::size_t>(of.pairs * b_stride));
  std::vector<float> c(static_cast<std::size_t>((of.rows + 17) * c_stride), kUntouched), expected = c;
  std::vector<float> factors(static_cast<std::size_t>(of.columns));
  const auto a_at = [&](std::int64_t i, std::int64_t k) { return small_number(i * a_stride + k, 0); };
  const auto b_at = [&](std::int64_t k, std::int64_t j) { return small_number(k * b_stride + j, 1); };
  for (std::int64_t i = 0; i < of.rows; ++i) {
    for (std::int64_t k = 0; k < a_stride; ++k) {
      a[static_cast<std::size_t>(i * a_stride + k)] = float_to_bfloat16(a_at(i, k));
    }
  }
  for (std::int64_t p = 0; p < of.pairs; ++p) {
    for (std::int64_t j = 0; j < b_stride; ++j) {
      b[static_cast<std::size_t>(p * b_stride + j)] =
          float_to_bfloat16(b_at(2 * p, j)) | std::uint32_t{float_to_bfloat16(b_at(2 * p + 1, j))} << 16;
    }
  }
  for (std::int64_t j = 0; j < of.columns; ++j) factors[static_cast<std::size_t>(j)] = small_number(j, 3);
  for (std::int64_t i = 0; i < of.rows; ++i) {
    for (std::int64_t j = 0; j < of.columns; ++j) {
      const auto at = static_cast<std::size_t>(i * c_stride + j);
      const float old = small_number(i * c_stride + j, 2);
      double sum = 0;
      for (std::int64_t k = 0; k < 2 * of.pairs; ++k) sum += double{a_at(i, k)} * double{b_at(k, j)};
      if (of.sum == DotSum::kAdd) sum += old * (of.factors ? factors[static_cast<std::size_t>(j)] : 1.0F);
      c[at] = old;
      expected[at] = static_cast<float>(sum);
    }
  }
  const auto expect = [&](std::vector<float> found, bool tiles) {
    dot_product_bf16({a.data(), a_stride}, of.rows, of.pairs, b.data(), b_stride, found.data(), c_stride, of.columns,
                     of.sum, of.factors ? factors.data() : nullptr);
    EXPECT_EQ(found, expected) << of.rows << " x " << of.pairs << " pairs x " << of.columns << ", sum "
                               << static_cast<int>(of.sum) << ", factors " << of.factors << ", tiles " << tiles;
  };
  expect(c, multiplies_tiles());
  if (of.pairs % 16 != 0 || multiplies_tiles()) return;
  const test::EmulatedAmx amx;
  expect(c, true);
}

TEST(DotProductBf16, IsExactOnOddShapes) {
  if (!multiplies_bf16()) GTEST_SKIP() << "this processor has no dot products of bfloat16 (AVX512_BF16)";
  for (const std::int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 64, 133, 192}) {
    for (const std::int64_t pairs : {1, 8, 16, 24, 32, 96}) {
      for (const std::int64_t columns : {16, 32, 48, 64}) {
        expect_exact({rows, pairs, columns, DotSum::kStore, false});
        expect_exact({rows, pairs, columns, DotSum::kAdd, false});
        expect_exact({rows, pairs, columns, DotSum::kAdd, true});
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
