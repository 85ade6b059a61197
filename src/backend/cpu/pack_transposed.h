// A weight [columns, inner], transposed into oneDNN's layout BA16a64b: for every 64 columns, [inner][64] without gaps.
// oneDNN's own reorder does the same in about twice the time.
#pragma once

#include <cstdint>

namespace plimsoll {

inline constexpr std::int64_t kPackedColumns = 64;
inline constexpr std::int64_t kPackedInner = 16;

// inner must be a multiple of kPackedInner, columns of kPackedColumns.
void pack_transposed(const float* weight, std::int64_t inner, std::int64_t columns, float* packed);

}  // namespace plimsoll
