// The two passes of a resize, on rows of bytes: sums of products in 22-bit fixed point, rounded and clamped to a byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/resample.h"

namespace plimsoll {

// Rows may be read and written up to this many bytes beyond their end.
inline constexpr std::size_t kRowPadding = 16;

// out[i] = sum of weights[k] * rows[k][i] over `count` rows, for `bytes` bytes.
void blend_rows(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::size_t bytes,
                std::uint8_t* out);

// The pass along x: `in` has R, G, B for each input position and padding, `out` each output position, unpadded.
void narrow_row(const std::uint8_t* in, const ResampleWeights& along_x, std::uint8_t* out);

}  // namespace plimsoll
