// The micro-kernel by AMX. It multiplies two by two tiles, for which it loads four a step, and what it does besides is
// divided among the steps, a line or two each: a longer pause than the tiles in flight last, about 130 cycles, would
// cost its full length.
#include <algorithm>

#include "backend/cpu/blocked_product.h"
#include "backend/cpu/dot_product_bf16.h"
#include "backend/cpu/tile_product_bf16.h"
#include "backend/cpu/tile_shapes.h"

namespace plimsoll {

#if defined(__x86_64__)
namespace {

#define PLIMSOLL_TILES_AND_VECTORS \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))
// It marks code that is part of such a function.
#define PLIMSOLL_PART __attribute__((always_inline)) PLIMSOLL_TILES_AND_VECTORS

constexpr std::int64_t kHalf = kPanelWidth / 2;         // rows or columns of a tile
constexpr std::int64_t kTile = kPanelStepElements / 2;  // its elements

PLIMSOLL_AMX void begin_tiles() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = kHalf;
    shapes.row_bytes[i] = 64;
  }
  load_tile_shapes(shapes);
}

PLIMSOLL_AMX void end_tiles() {
  _tile_release();
  _mm_sfence();  // for stores past the caches
}

// How a whole micro-block is stored.
enum class Finish : std::uint8_t { kNothing, kHalves, kFloats, kSums };

// Stores 32 columns of a row. They go past the caches: written one micro-block at a time, whole rows would first be
// fetched, a line of each, and push panels out of the second cache.
template <Finish finish>
PLIMSOLL_PART inline void store_row(const float* from, const __m512 (&bias)[2], void* to) {
  const __m512 left = _mm512_add_ps(_mm512_loadu_ps(from), bias[0]);
  const __m512 right = _mm512_add_ps(_mm512_loadu_ps(from + kHalf), bias[1]);
  auto* const floats = static_cast<float*>(to);
  if constexpr (finish == Finish::kHalves) {
    _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)_mm512_cvtne2ps_pbh(right, left));
  } else if constexpr (finish == Finish::kFloats) {
    _mm512_stream_ps(floats, left);
    _mm512_stream_ps(floats + kHalf, right);
  } else {
    _mm512_storeu_ps(floats, _mm512_add_ps(_mm512_loadu_ps(floats), left));
    _mm512_storeu_ps(floats + kHalf, _mm512_add_ps(_mm512_loadu_ps(floats + kHalf), right));
  }
}

// Copies one or two rows, one line of each a step.
class CopyBySteps {
 public:
  PLIMSOLL_PART explicit CopyBySteps(const RowsCopy& copy)
      : from_(copy.from),
        to_(copy.to),
        second_(copy.rows > 1 ? copy.stride : 0),
        second_to_(copy.rows > 1 ? copy.panel_stride : 0),
        last_step_(copy.steps - 1),
        last_mask_(static_cast<__mmask32>((std::uint64_t{1} << copy.last) - 1)) {}

  PLIMSOLL_PART void step(std::int64_t step) {
    if (step > last_step_) return;
    const __mmask32 mask = step < last_step_ ? ~__mmask32{0} : last_mask_;
    _mm512_storeu_si512(to_, _mm512_maskz_loadu_epi16(mask, from_));
    _mm512_storeu_si512(to_ + second_to_, _mm512_maskz_loadu_epi16(mask, from_ + second_));
    from_ += kPanelStep;
    to_ += kPanelStep;
  }

 private:
  const std::uint16_t* from_;
  std::uint16_t* to_;
  std::int64_t second_, second_to_, last_step_;
  __mmask32 last_mask_;
};

// Stores a whole micro-block, a few rows a step.
template <Finish finish>
class StoreBySteps {
 public:
  PLIMSOLL_PART StoreBySteps(const BlockStore& block, std::int64_t steps)
      : from_(block.from),
        to_(static_cast<std::byte*>(block.to)),
        row_bytes_(block.row_bytes),
        rows_a_step_((kPanelWidth + steps - 1) / steps) {
    const bool has_bias = finish != Finish::kNothing && block.bias != nullptr;  // otherwise it may have fewer columns
    bias_[0] = has_bias ? _mm512_loadu_ps(block.bias) : _mm512_setzero_ps();
    bias_[1] = has_bias ? _mm512_loadu_ps(block.bias + kHalf) : _mm512_setzero_ps();
  }

  PLIMSOLL_PART void step() {
    for (std::int64_t i = std::min(rows_a_step_, left_); i > 0; --i, --left_) {
      store_row<finish>(from_, bias_, to_);
      from_ += kPanelWidth;
      to_ += row_bytes_;
    }
  }

 private:
  const float* from_;
  std::byte* to_;
  std::int64_t row_bytes_, rows_a_step_, left_ = kPanelWidth;
  __m512 bias_[2];
};

// Registers 0 to 3 hold the two by two tiles of c, 4 and 5 those of a, 6 and 7 those of b. The tiles of b are loaded
// past the first cache, where the panel of a stays, as far as it fits; and a step's first tile is loaded before the
// last products of the step before.
template <Finish finish, bool copies>
PLIMSOLL_TILES_AND_VECTORS void multiply(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b,
                                         std::int64_t steps, float* c, bool adds, const Besides& besides) {
  constexpr std::int64_t kRowBytes = kPanelWidth * sizeof(float), kTileRowBytes = 64;
  constexpr std::int64_t kKept = 20;  // steps of a panel of a: 40 KiB of 48
  const std::int64_t a_bytes = a_stride * static_cast<std::int64_t>(sizeof *a);
  const std::uint16_t* a_below = a + kHalf * a_stride;
  float* const below = c + kHalf * kPanelWidth;
  CopyBySteps copy(besides.copy);
  StoreBySteps<finish> store(besides.store, steps);
  store_before_tiles();
  _tile_stream_loadd(6, b, kTileRowBytes);
  _tile_stream_loadd(7, b + kTile, kTileRowBytes);
  _tile_loadd(4, a, a_bytes);
  _tile_loadd(5, a_below, a_bytes);
  if (adds) {
    _tile_loadd(0, c, kRowBytes);
    _tile_loadd(2, below, kRowBytes);
    _tile_loadd(1, c + kHalf, kRowBytes);
    _tile_loadd(3, below + kHalf, kRowBytes);
  } else {
    _tile_zero(0);
    _tile_zero(2);
    _tile_zero(1);
    _tile_zero(3);
  }
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(2, 5, 6);
  if constexpr (copies) copy.step(0);
  if constexpr (finish != Finish::kNothing) store.step();
  for (std::int64_t step = 1; step < steps; ++step) {
    a += kPanelStep;
    a_below += kPanelStep;
    b += kPanelStepElements;
    _tile_stream_loadd(6, b, kTileRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    if (step < kKept) {
      _tile_loadd(4, a, a_bytes);
    } else {
      _tile_stream_loadd(4, a, a_bytes);
    }
    _tile_dpbf16ps(3, 5, 7);
    _tile_stream_loadd(7, b + kTile, kTileRowBytes);
    if (step < kKept) {
      _tile_loadd(5, a_below, a_bytes);
    } else {
      _tile_stream_loadd(5, a_below, a_bytes);
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (copies) copy.step(step);
    if constexpr (finish != Finish::kNothing) store.step();
  }
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(3, 5, 7);
  _tile_stored(0, c, kRowBytes);
  _tile_stored(2, below, kRowBytes);
  _tile_stored(1, c + kHalf, kRowBytes);
  _tile_stored(3, below + kHalf, kRowBytes);
}

template <Finish finish>
void multiply_and_copy(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps,
                       float* c, bool adds, const Besides& besides) {
  const RowsCopy& copy = besides.copy;
  if (copy.rows > 0 && copy.rows <= 2 && copy.steps <= steps) {
    multiply<finish, true>(a, a_stride, b, steps, c, adds, besides);
    return;
  }
  copy_simply(copy);
  multiply<finish, false>(a, a_stride, b, steps, c, adds, besides);
}

void multiply_by_tiles(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps,
                       float* c, bool adds, const Besides& besides) {
  const BlockStore& store = besides.store;
  const bool is_whole = store.rows == kPanelWidth && store.columns == kPanelWidth;
  const bool has_whole_lines = reinterpret_cast<std::uintptr_t>(store.to) % 64 == 0 && store.row_bytes % 64 == 0;
  if (!is_whole || !has_whole_lines) {
    store_simply(store);
    multiply_and_copy<Finish::kNothing>(a, a_stride, b, steps, c, adds, besides);
  } else if (store.in_halves) {
    multiply_and_copy<Finish::kHalves>(a, a_stride, b, steps, c, adds, besides);
  } else if (store.adds) {
    multiply_and_copy<Finish::kSums>(a, a_stride, b, steps, c, adds, besides);
  } else {
    multiply_and_copy<Finish::kFloats>(a, a_stride, b, steps, c, adds, besides);
  }
}

}  // namespace

// Processors with AMX have first caches of 48 KiB and second ones of 2 MiB.
const MicroKernel* tile_micro_kernel() {
  static constexpr MicroKernel kKernel{
      "AMX", {.inner = 768, .rows = 384, .columns = 768}, begin_tiles, end_tiles, multiply_by_tiles};
  return multiplies_tiles() ? &kKernel : nullptr;
}
#else
const MicroKernel* tile_micro_kernel() { return nullptr; }
#endif

}  // namespace plimsoll
