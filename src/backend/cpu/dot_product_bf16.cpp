#include "backend/cpu/dot_product_bf16.h"

#include <algorithm>

#include "backend/cpu/tile_product_bf16.h"
#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace plimsoll {
namespace {

constexpr int kLanes = 16;
// Blocks of 6 x 4 vectors fill the registers: 24 sums, 4 of B and 1 of A.
constexpr int kRows = 6, kVectors = 4;

template <int rows, int vectors>
PLIMSOLL_AVX512_BF16 void block(PairRows a, std::int64_t pairs, const std::uint32_t* b, std::int64_t b_stride, float* c,
                                std::int64_t c_stride, DotSum sum, const float* factors) {
  __m512 sums[rows][vectors];
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < vectors; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  for (std::int64_t p = 0; p < pairs; ++p) {
    __m512bh row[vectors];
    for (int j = 0; j < vectors; ++j) row[j] = (__m512bh)_mm512_loadu_si512(b + p * b_stride + j * kLanes);
    for (int i = 0; i < rows; ++i) {
      std::int32_t pair = 0;
      __builtin_memcpy(&pair, a.data + i * a.row_stride + 2 * p, sizeof pair);
      const auto factor = (__m512bh)_mm512_set1_epi32(pair);
      for (int j = 0; j < vectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], factor, row[j]);
    }
  }
  for (int i = 0; i < rows; ++i) {
    float* const to = c + i * c_stride;
    for (int j = 0; j < vectors; ++j) {
      __m512 value = sums[i][j];
      if (sum == DotSum::kAdd) {
        const __m512 old = _mm512_loadu_ps(to + j * kLanes);
        value = factors == nullptr ? _mm512_add_ps(old, value)
                                   : _mm512_fmadd_ps(old, _mm512_loadu_ps(factors + j * kLanes), value);
      }
      _mm512_storeu_ps(to + j * kLanes, value);
    }
  }
}

// Multiplies all rows with `vectors` vectors of the columns.
template <int vectors>
PLIMSOLL_AVX512_BF16 void strip(PairRows a, std::int64_t rows, std::int64_t pairs, const std::uint32_t* b,
                                std::int64_t b_stride, float* c, std::int64_t c_stride, DotSum sum,
                                const float* factors) {
  for (std::int64_t i = 0; i < rows;) {
    const PairRows rest{a.data + i * a.row_stride, a.row_stride};
    float* const to = c + i * c_stride;
    if (rows - i >= kRows) {
      block<kRows, vectors>(rest, pairs, b, b_stride, to, c_stride, sum, factors);
      i += kRows;
    } else if (rows - i >= 2) {
      block<2, vectors>(rest, pairs, b, b_stride, to, c_stride, sum, factors);
      i += 2;
    } else {
      block<1, vectors>(rest, pairs, b, b_stride, to, c_stride, sum, factors);
      i += 1;
    }
  }
}

}  // namespace

void dot_product_bf16(PairRows a, std::int64_t rows, std::int64_t pairs, const std::uint32_t* b, std::int64_t b_stride,
                      float* c, std::int64_t c_stride, std::int64_t columns, DotSum sum, const float* factors) {
  if (pairs % 16 == 0 && multiplies_tiles()) {
    tile_product_bf16(a, rows, pairs, b, b_stride, c, c_stride, columns, sum, factors);
    return;
  }
  for (std::int64_t j = 0; j < columns;) {
    const std::int64_t vectors = std::min<std::int64_t>(kVectors, (columns - j) / kLanes);
    const float* const of_columns = factors == nullptr ? nullptr : factors + j;
    if (vectors == 4) {
      strip<4>(a, rows, pairs, b + j, b_stride, c + j, c_stride, sum, of_columns);
    } else if (vectors >= 2) {
      strip<2>(a, rows, pairs, b + j, b_stride, c + j, c_stride, sum, of_columns);
    } else {
      strip<1>(a, rows, pairs, b + j, b_stride, c + j, c_stride, sum, of_columns);
    }
    j += (vectors == 3 ? 2 : vectors) * kLanes;
  }
}

}  // namespace plimsoll

#else

namespace plimsoll {

void dot_product_bf16(PairRows, std::int64_t, std::int64_t, const std::uint32_t*, std::int64_t, float*, std::int64_t,
                      std::int64_t, DotSum, const float*) {
  check(false, "this processor has dot products of bfloat16");
}

}  // namespace plimsoll

#endif
