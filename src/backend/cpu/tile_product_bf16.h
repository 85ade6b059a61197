// The products of dot_product_bf16 on AMX: a register holds a tile of 16 rows, and one instruction multiplies two of
// them, at 16 times the rate of F32.
#pragma once

#include "backend/cpu/dot_product_bf16.h"

namespace plimsoll {

// True if the processor has bfloat16 tiles and the system lets this process use them.
bool multiplies_tiles();
// For tests that emulate AMX. No other thread may multiply while it is called.
void set_multiplies_tiles_for_test(bool may);

// Does the same as dot_product_bf16; requires multiplies_tiles(). `pairs` must be a multiple of 16.
void tile_product_bf16(PairRows a, std::int64_t rows, std::int64_t pairs, const std::uint32_t* b, std::int64_t b_stride,
                       float* c, std::int64_t c_stride, std::int64_t columns, DotSum sum, const float* factors);

}  // namespace plimsoll
