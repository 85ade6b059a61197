#include <algorithm>

#include "backend/cpu/blocked_product.h"
#include "backend/cpu/dot_product_bf16.h"
#include "tensor/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll {
namespace {

constexpr std::int64_t kHalf = kPanelWidth / 2;         // rows or columns of a tile
constexpr std::int64_t kTile = kPanelStepElements / 2;  // its elements
constexpr Blocking kSmall{
    .inner = 256, .part = 256, .rows = 192, .columns = 256, .block = 256 * 256};  // fits second caches of 512 KiB

void nothing() {}

void multiply_simply(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps,
                     float* c, const Besides& besides) {
  store_simply(besides.store);
  std::fill(c, c + kMicroBlock, 0.0F);
  for (std::int64_t step = 0; step < steps; ++step, a += kPanelStep, b += kPanelStepElements) {
    for (std::int64_t i = 0; i < kPanelWidth; ++i) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        const std::uint16_t* const row = a + i * a_stride;
        const std::uint16_t* const column = b + j / kHalf * kTile + j % kHalf * 2;
        for (std::int64_t k = 0; k < kPanelStep; ++k) {
          c[i * kPanelWidth + j] += bfloat16_to_float(row[k]) * bfloat16_to_float(column[k / 2 * kPanelStep + k % 2]);
        }
      }
    }
  }
}

#if defined(__x86_64__)
PLIMSOLL_AVX512_BF16 void multiply_by_vectors(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b,
                                              std::int64_t steps, float* c, const Besides& besides) {
  store_simply(besides.store);
  constexpr int kRows = 8, kVectors = 2;
  for (std::int64_t i = 0; i < kPanelWidth; i += kRows) {
    __m512 sums[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
    }
    const std::uint16_t* row = a + i * a_stride;
    const std::uint16_t* column = b;
    for (std::int64_t step = 0; step < steps; ++step, row += kPanelStep, column += kPanelStepElements) {
      for (std::int64_t p = 0; p < kPanelStep / 2; ++p) {
        const auto left = (__m512bh)_mm512_loadu_si512(column + p * kPanelStep);
        const auto right = (__m512bh)_mm512_loadu_si512(column + kTile + p * kPanelStep);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          std::int32_t pair = 0;
          __builtin_memcpy(&pair, row + r * a_stride + 2 * p, sizeof pair);
          const auto factor = (__m512bh)_mm512_set1_epi32(pair);
          sums[r][0] = _mm512_dpbf16_ps(sums[r][0], factor, left);
          sums[r][1] = _mm512_dpbf16_ps(sums[r][1], factor, right);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + (i + r) * kPanelWidth + v * kHalf, sums[r][v]);
    }
  }
}
#endif

}  // namespace

void store_simply(const BlockStore& block) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    std::byte* const row = static_cast<std::byte*>(block.to) + i * block.row_bytes;
    for (std::int64_t j = 0; j < block.columns; ++j) {
      const std::int64_t at = i * kPanelWidth + j;
      const float sum = block.from[at] + (block.plus == nullptr ? 0.0F : block.plus[at]) +
                        (block.bias == nullptr ? 0.0F : block.bias[j]);
      if (block.in_halves) {
        reinterpret_cast<std::uint16_t*>(row)[j] = float_to_bfloat16(sum);
      } else {
        float& to = reinterpret_cast<float*>(row)[j];
        to = block.adds ? to + sum : sum;
      }
    }
  }
}

const MicroKernel& reference_micro_kernel() {
  static constexpr MicroKernel kKernel{"loops", kSmall, nothing, nothing, multiply_simply};
  return kKernel;
}

#if defined(__x86_64__)
const MicroKernel* vector_micro_kernel() {
  static constexpr MicroKernel kKernel{"AVX512_BF16", kSmall, nothing, nothing, multiply_by_vectors};
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") ? &kKernel : nullptr;
}
#else
const MicroKernel* vector_micro_kernel() { return nullptr; }
#endif

}  // namespace plimsoll
