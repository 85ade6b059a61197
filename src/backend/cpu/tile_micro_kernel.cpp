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
enum class Finish : std::uint8_t { kNothing, kHalves, kFloats, kSums, kFloatsReadSoon };

// Stores 32 columns of a row. Unless they are read soon they go past the caches: written one micro-block at a time,
// whole rows would first be fetched, a line of each, and push panels out of the second cache.
template <Finish finish, bool plus>
PLIMSOLL_PART inline void store_row(const float* from, const float* more, const __m512 (&bias)[2], void* to) {
  __m512 left = _mm512_loadu_ps(from), right = _mm512_loadu_ps(from + kHalf);
  if constexpr (plus) {
    left = _mm512_add_ps(left, _mm512_loadu_ps(more));
    right = _mm512_add_ps(right, _mm512_loadu_ps(more + kHalf));
  }
  left = _mm512_add_ps(left, bias[0]);
  right = _mm512_add_ps(right, bias[1]);
  auto* const floats = static_cast<float*>(to);
  if constexpr (finish == Finish::kHalves) {
    _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)_mm512_cvtne2ps_pbh(right, left));
  } else if constexpr (finish == Finish::kFloats) {
    _mm512_stream_ps(floats, left);
    _mm512_stream_ps(floats + kHalf, right);
  } else if constexpr (finish == Finish::kFloatsReadSoon) {
    _mm512_storeu_ps(floats, left);
    _mm512_storeu_ps(floats + kHalf, right);
  } else {
    _mm512_storeu_ps(floats, _mm512_add_ps(_mm512_loadu_ps(floats), left));
    _mm512_storeu_ps(floats + kHalf, _mm512_add_ps(_mm512_loadu_ps(floats + kHalf), right));
  }
}

// Fetches lines into the second cache, a few a step.
class FetchBySteps {
 public:
  PLIMSOLL_PART FetchBySteps(const NextLines& next, std::int64_t steps)
      : at_(next.from),
        to_next_row_(next.row_bytes - next.row_lines * kLine),
        row_lines_(next.row_lines),
        row_left_(next.row_lines),
        left_(next.rows * next.row_lines),
        lines_a_step_((left_ + steps - 1) / steps) {}

  PLIMSOLL_PART void step() {
    for (std::int64_t i = std::min(lines_a_step_, left_); i > 0; --i, --left_) {
      _mm_prefetch(at_, _MM_HINT_T1);
      at_ += kLine;
      if (--row_left_ == 0) {
        at_ += to_next_row_;
        row_left_ = row_lines_;
      }
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  const std::byte* at_;
  std::int64_t to_next_row_, row_lines_, row_left_, left_, lines_a_step_;
};

// Stores a whole micro-block, a few rows a step.
template <Finish finish, bool plus>
class StoreBySteps {
 public:
  PLIMSOLL_PART StoreBySteps(const BlockStore& block, std::int64_t steps)
      : from_(block.from),
        plus_(block.plus),
        to_(static_cast<std::byte*>(block.to)),
        row_bytes_(block.row_bytes),
        rows_a_step_((kPanelWidth + steps - 1) / steps) {
    const bool has_bias = finish != Finish::kNothing && block.bias != nullptr;  // otherwise it may have fewer columns
    bias_[0] = has_bias ? _mm512_loadu_ps(block.bias) : _mm512_setzero_ps();
    bias_[1] = has_bias ? _mm512_loadu_ps(block.bias + kHalf) : _mm512_setzero_ps();
  }

  PLIMSOLL_PART void step() {
    for (std::int64_t i = std::min(rows_a_step_, left_); i > 0; --i, --left_) {
      store_row<finish, plus>(from_, plus_, bias_, to_);
      from_ += kPanelWidth;
      if constexpr (plus) plus_ += kPanelWidth;
      to_ += row_bytes_;
    }
  }

 private:
  const float *from_, *plus_;
  std::byte* to_;
  std::int64_t row_bytes_, rows_a_step_, left_ = kPanelWidth;
  __m512 bias_[2];
};

// Registers 0 to 3 hold the two by two tiles of c, 4 and 5 those of a, 6 and 7 those of b. The tiles of b are loaded
// past the first cache, where the panel of a stays, as far as it fits; and a step's first tile is loaded before the
// last products of the step before.
template <Finish finish, bool plus>
PLIMSOLL_TILES_AND_VECTORS void multiply(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b,
                                         std::int64_t steps, float* c, const Besides& besides) {
  constexpr std::int64_t kRowBytes = kPanelWidth * sizeof(float), kTileRowBytes = 64;
  constexpr std::int64_t kKept = 18;  // steps of a panel of a: 36 KiB of 48
  const std::int64_t a_bytes = a_stride * static_cast<std::int64_t>(sizeof *a);
  const std::uint16_t* a_below = a + kHalf * a_stride;
  float* const below = c + kHalf * kPanelWidth;
  FetchBySteps fetch(besides.next, steps);
  StoreBySteps<finish, plus> store(besides.store, steps);
  store_before_tiles();
  _tile_stream_loadd(6, b, kTileRowBytes);
  _tile_stream_loadd(7, b + kTile, kTileRowBytes);
  _tile_loadd(4, a, a_bytes);
  _tile_loadd(5, a_below, a_bytes);
  _tile_zero(0);
  _tile_zero(2);
  _tile_zero(1);
  _tile_zero(3);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(2, 5, 6);
  fetch.step();
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
    fetch.step();
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
void multiply_and_store(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps,
                        float* c, const Besides& besides) {
  (besides.store.plus == nullptr ? multiply<finish, false> : multiply<finish, true>)(a, a_stride, b, steps, c, besides);
}

void multiply_by_tiles(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps,
                       float* c, const Besides& besides) {
  const BlockStore& store = besides.store;
  const bool is_whole = store.rows == kPanelWidth && store.columns == kPanelWidth;
  const bool has_whole_lines = reinterpret_cast<std::uintptr_t>(store.to) % 64 == 0 && store.row_bytes % 64 == 0;
  if (!is_whole || !has_whole_lines) {
    store_simply(store);
    multiply<Finish::kNothing, false>(a, a_stride, b, steps, c, besides);
  } else if (store.in_halves) {
    multiply_and_store<Finish::kHalves>(a, a_stride, b, steps, c, besides);
  } else if (store.adds) {
    multiply_and_store<Finish::kSums>(a, a_stride, b, steps, c, besides);
  } else if (store.is_read_soon) {
    multiply_and_store<Finish::kFloatsReadSoon>(a, a_stride, b, steps, c, besides);
  } else {
    multiply_and_store<Finish::kFloats>(a, a_stride, b, steps, c, besides);
  }
}

}  // namespace

// Processors with AMX have first caches of 48 KiB and second ones of 2 MiB.
const MicroKernel* tile_micro_kernel() {
  static constexpr MicroKernel kKernel{"AMX",
                                       {.inner = 1024, .part = 576, .rows = 384, .columns = 1024, .block = 768 * 768},
                                       begin_tiles,
                                       end_tiles,
                                       multiply_by_tiles};
  return multiplies_tiles() ? &kKernel : nullptr;
}
#else
const MicroKernel* tile_micro_kernel() { return nullptr; }
#endif

}  // namespace plimsoll
