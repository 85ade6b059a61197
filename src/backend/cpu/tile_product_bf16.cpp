#include "backend/cpu/tile_product_bf16.h"

#include <algorithm>

#include "backend/cpu/tile_shapes.h"
#include "base/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plimsoll {
namespace {

constexpr std::int64_t kTile = 16;  // rows of a tile, and pairs or F32 columns in a row

// Registers 0 to 3 hold a block of two by two tiles of C, 4 and 5 two tiles of A, one below the other, 6 and 7 two of
// B, side by side. The upper tiles have `upper` rows and the lower ones `lower`.
PLIMSOLL_AMX void shape_tiles(std::int64_t upper, std::int64_t lower) {
  TileShapes shapes;
  const std::int64_t rows[8] = {upper, upper, lower, lower, upper, lower, kTile, kTile};
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = static_cast<std::uint8_t>(rows[i]);
    shapes.row_bytes[i] = static_cast<std::uint16_t>(rows[i] == 0 ? 0 : 64);
  }
  load_tile_shapes(shapes);
}

// Multiplies one block of C; `lower` and `right` say whether it has tiles below and beside the first.
template <bool lower, bool right>
PLIMSOLL_AMX void block(PairRows a, std::int64_t pairs, const std::uint32_t* b, std::int64_t b_stride, float* c,
                        std::int64_t c_stride, DotSum sum) {
  const std::int64_t a_bytes = a.row_stride * 2, b_bytes = b_stride * 4, c_bytes = c_stride * 4;
  float* const below = c + kTile * c_stride;
  if (sum == DotSum::kAdd) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (right) _tile_loadd(1, c + kTile, c_bytes);
    if constexpr (lower) _tile_loadd(2, below, c_bytes);
    if constexpr (lower && right) _tile_loadd(3, below + kTile, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (right) _tile_zero(1);
    if constexpr (lower) _tile_zero(2);
    if constexpr (lower && right) _tile_zero(3);
  }
  for (std::int64_t p = 0; p < pairs; p += kTile) {
    const std::uint32_t* const from = b + p * b_stride;
    _tile_loadd(4, a.data + 2 * p, a_bytes);
    _tile_loadd(6, from, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (right) {
      _tile_loadd(7, from + kTile, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (lower) {
      _tile_loadd(5, a.data + 2 * p + kTile * a.row_stride, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (lower && right) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (right) _tile_stored(1, c + kTile, c_bytes);
  if constexpr (lower) _tile_stored(2, below, c_bytes);
  if constexpr (lower && right) _tile_stored(3, below + kTile, c_bytes);
}

// Computes up to 32 rows of C.
template <bool lower>
PLIMSOLL_AMX void strip(PairRows a, std::int64_t pairs, const std::uint32_t* b, std::int64_t b_stride, float* c,
                        std::int64_t c_stride, std::int64_t columns, DotSum sum) {
  std::int64_t j = 0;
  for (; j + 2 * kTile <= columns; j += 2 * kTile) block<lower, true>(a, pairs, b + j, b_stride, c + j, c_stride, sum);
  if (j < columns) block<lower, false>(a, pairs, b + j, b_stride, c + j, c_stride, sum);
}

PLIMSOLL_AMX void scale_columns(float* c, std::int64_t c_stride, std::int64_t rows, std::int64_t columns,
                                const float* factors) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const row = c + i * c_stride;
    for (std::int64_t j = 0; j < columns; j += kTile) {
      _mm512_storeu_ps(row + j, _mm512_mul_ps(_mm512_loadu_ps(row + j), _mm512_loadu_ps(factors + j)));
    }
  }
}

// AMX's state is large, so Linux enables it only for a process that asks for it (arch_prctl, ARCH_REQ_XCOMP_PERM); the
// permission is permanent and covers all threads.
bool ask_for_tiles() {
  constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24;  // CPUID 7.0, EDX
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kBf16) == 0 || (edx & kTiles) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool& may_multiply_tiles() {
  static bool may = ask_for_tiles();
  return may;
}

}  // namespace

bool multiplies_tiles() { return may_multiply_tiles(); }
void set_multiplies_tiles_for_test(bool may) { may_multiply_tiles() = may; }

PLIMSOLL_AMX void tile_product_bf16(PairRows a, std::int64_t rows, std::int64_t pairs, const std::uint32_t* b,
                                    std::int64_t b_stride, float* c, std::int64_t c_stride, std::int64_t columns,
                                    DotSum sum, const float* factors) {
  if (factors != nullptr && sum == DotSum::kAdd) scale_columns(c, c_stride, rows, columns, factors);
  store_before_tiles();
  if (rows >= 2 * kTile) shape_tiles(kTile, kTile);
  for (std::int64_t i = 0; i < rows; i += 2 * kTile) {
    const PairRows rest{a.data + i * a.row_stride, a.row_stride};
    float* const to = c + i * c_stride;
    const std::int64_t upper = std::min(rows - i, kTile), lower = std::min(rows - i - upper, kTile);
    if (upper + lower < 2 * kTile) shape_tiles(upper, lower);
    if (lower > 0) {
      strip<true>(rest, pairs, b, b_stride, to, c_stride, columns, sum);
    } else {
      strip<false>(rest, pairs, b, b_stride, to, c_stride, columns, sum);
    }
  }
  _tile_release();
}

}  // namespace plimsoll

#else

namespace plimsoll {

bool multiplies_tiles() { return false; }
void set_multiplies_tiles_for_test(bool) {}

void tile_product_bf16(PairRows, std::int64_t, std::int64_t, const std::uint32_t*, std::int64_t, float*, std::int64_t,
                       std::int64_t, DotSum, const float*) {
  check(false, "this processor has tiles of bfloat16");
}

}  // namespace plimsoll

#endif
