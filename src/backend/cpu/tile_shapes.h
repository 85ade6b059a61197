// The registers of AMX, and the order of memory around them. The intrinsics of GCC (12 to 15) are inline assembly that
// does not say which memory it reads: _tile_loadconfig claims the first 8 of its 64 bytes, and tile loads claim none, so
// that the compiler drops or delays the stores before them.
// A function that uses this is PLIMSOLL_AMX, and runs only where multiplies_tiles() is true.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#define PLIMSOLL_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))

namespace plimsoll {

// The configuration of the eight tile registers as `ldtilecfg` reads it: rows, and bytes of a row, of each.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Makes the compiler write to memory what the program has stored so far, because a tile instruction reads it next.
PLIMSOLL_AMX inline void store_before_tiles() { asm volatile("" ::: "memory"); }

PLIMSOLL_AMX inline void load_tile_shapes(const TileShapes& shapes) {
  asm volatile("" ::"r"(&shapes) : "memory");
  _tile_loadconfig(&shapes);
}

}  // namespace plimsoll

#endif
