// Products of bytes. Their sums are integers, and so are the same however they are computed.
#pragma once

#include <cstdint>

namespace plimsoll {

// sums[rows, columns] = a[rows, inner] b[columns, inner]^T by loops, for machines without an instruction that
// multiplies bytes. Runs on OpenMP's team.
void multiply_int8_by_loops(const std::int8_t* a, const std::int8_t* b, std::int64_t rows, std::int64_t columns,
                            std::int64_t inner, std::int32_t* sums);

}  // namespace plimsoll
