#include <algorithm>

#include "backend/cpu/blocked_product.h"
#include "backend/cpu/dot_product_bf16.h"
#include "backend/cpu/tile_product_bf16.h"
#include "backend/cpu/tile_shapes.h"
#include "tensor/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll {
namespace {

constexpr std::int64_t kHalf = kPanelWidth / 2;                        // rows or columns of a tile
constexpr std::int64_t kTile = kPanelStepElements / 2;                 // its elements
constexpr Blocking kSmall{.inner = 256, .rows = 192, .columns = 256};  // fits second caches of 512 KiB

void nothing() {}

void multiply_simply(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, float* c, bool adds) {
  if (!adds) std::fill(c, c + kMicroBlock, 0.0F);
  for (std::int64_t step = 0; step < steps; ++step, a += kPanelStepElements, b += kPanelStepElements) {
    for (std::int64_t i = 0; i < kPanelWidth; ++i) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        const std::uint16_t* const row = a + i / kHalf * kTile + i % kHalf * kPanelStep;
        const std::uint16_t* const column = b + j / kHalf * kTile + j % kHalf * 2;
        for (std::int64_t k = 0; k < kPanelStep; ++k) {
          c[i * kPanelWidth + j] += bfloat16_to_float(row[k]) * bfloat16_to_float(column[k / 2 * kPanelStep + k % 2]);
        }
      }
    }
  }
}

#if defined(__x86_64__)
PLIMSOLL_AVX512_BF16 void multiply_by_vectors(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps,
                                              float* c, bool adds) {
  constexpr int kRows = 8, kVectors = 2;
  for (std::int64_t i = 0; i < kPanelWidth; i += kRows) {
    __m512 sums[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = adds ? _mm512_loadu_ps(c + (i + r) * kPanelWidth + v * kHalf) : _mm512_setzero_ps();
      }
    }
    const std::uint16_t* row = a + i / kHalf * kTile + i % kHalf * kPanelStep;
    const std::uint16_t* column = b;
    for (std::int64_t step = 0; step < steps; ++step, row += kPanelStepElements, column += kPanelStepElements) {
      for (std::int64_t p = 0; p < kPanelStep / 2; ++p) {
        const auto left = (__m512bh)_mm512_loadu_si512(column + p * kPanelStep);
        const auto right = (__m512bh)_mm512_loadu_si512(column + kTile + p * kPanelStep);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          std::int32_t pair = 0;
          __builtin_memcpy(&pair, row + r * kPanelStep + 2 * p, sizeof pair);
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

PLIMSOLL_AMX void begin_tiles() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = kHalf;
    shapes.row_bytes[i] = 64;
  }
  load_tile_shapes(shapes);
}

PLIMSOLL_AMX void end_tiles() { _tile_release(); }

// Registers 0 to 3 hold the two by two tiles of c, 4 and 5 those of a, 6 and 7 those of b.
PLIMSOLL_AMX void multiply_by_tiles(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, float* c,
                                    bool adds) {
  constexpr std::int64_t kRowBytes = kPanelWidth * sizeof(float), kTileRowBytes = 64;
  float* const below = c + kHalf * kPanelWidth;
  store_before_tiles();
  if (adds) {
    _tile_loadd(0, c, kRowBytes);
    _tile_loadd(1, c + kHalf, kRowBytes);
    _tile_loadd(2, below, kRowBytes);
    _tile_loadd(3, below + kHalf, kRowBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t step = 0; step < steps; ++step, a += kPanelStepElements, b += kPanelStepElements) {
    _tile_loadd(4, a, kTileRowBytes);
    _tile_loadd(6, b, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTile, kTileRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTile, kTileRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, kRowBytes);
  _tile_stored(1, c + kHalf, kRowBytes);
  _tile_stored(2, below, kRowBytes);
  _tile_stored(3, below + kHalf, kRowBytes);
}
#endif

}  // namespace

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

// Processors with AMX have second caches of 2 MiB.
const MicroKernel* tile_micro_kernel() {
  static constexpr MicroKernel kKernel{
      "AMX", {.inner = 256, .rows = 384, .columns = 512}, begin_tiles, end_tiles, multiply_by_tiles};
  return multiplies_tiles() ? &kKernel : nullptr;
}
#else
const MicroKernel* vector_micro_kernel() { return nullptr; }
const MicroKernel* tile_micro_kernel() { return nullptr; }
#endif

}  // namespace plimsoll
