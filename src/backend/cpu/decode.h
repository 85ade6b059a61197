// Decodes rows in Q8 or NF4 (tensor/block_code.h) to F32 or BF16, and widens rows of halves.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace plimsoll {

// to[r, c] = element (first_row + r, first_column + c) of a matrix in codes or halves with `columns` columns, for
// `count` columns of `rows` rows; `to` is dense. first_column is a multiple of 64. Runs on OpenMP's team.
void decode_rows(DType dtype, const void* matrix, std::int64_t columns, std::int64_t first_row, std::int64_t rows,
                 std::int64_t first_column, std::int64_t count, void* to, DType to_type);

// Does the same for `count` columns of one row, from `first_column` on, to F32, on the caller's thread.
void decode_columns(DType dtype, const void* row, std::int64_t first_column, std::int64_t count, float* to);

}  // namespace plimsoll
