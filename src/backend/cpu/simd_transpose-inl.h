// Transposes floats, compiled once for each Highway target.
//
//   simd_transpose(logits, 64, rows, columns, to, vocabulary);  // to[j * vocabulary + i] = logits[i * 64 + j]
#if defined(PLIMSOLL_BACKEND_CPU_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_SIMD_TRANSPOSE_INL_H_
#undef PLIMSOLL_BACKEND_CPU_SIMD_TRANSPOSE_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_SIMD_TRANSPOSE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Stores the transposes of 4 x 4 floats, one in each block of 16 bytes of the four rows' vectors: row k of `to` gets
// element k of every row and block.
template <class D>
HWY_INLINE void store_transposed(D d, hn::Vec<D> r0, hn::Vec<D> r1, hn::Vec<D> r2, hn::Vec<D> r3, float* to,
                                 std::size_t to_stride) {
  const hn::Repartition<double, D> pairs;
  const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
             b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto c = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1)),
             e = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, c, e)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, c, e)), d, to + 3 * to_stride);
}

// to[k][j] = from[j][k] for 4 x 4 floats.
HWY_INLINE void transpose_four(const float* from, std::size_t from_stride, float* to, std::size_t to_stride) {
  const hn::FixedTag<float, 4> d;
  store_transposed(d, hn::LoadU(d, from), hn::LoadU(d, from + from_stride), hn::LoadU(d, from + 2 * from_stride),
                   hn::LoadU(d, from + 3 * from_stride), to, to_stride);
}

// Transposes any number of rows and columns, four by four.
inline void transpose_by_fours(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                               float* to, std::int64_t to_stride) {
  const std::int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (std::int64_t j = 0; j < columns; j += 4) {
    const bool whole = j < whole_columns;
    for (std::int64_t i = 0; whole && i < whole_rows; i += 4) {
      transpose_four(from + i * from_stride + j, static_cast<std::size_t>(from_stride), to + j * to_stride + i,
                     static_cast<std::size_t>(to_stride));
    }
    for (std::int64_t k = j; k < (whole ? j + 4 : columns); ++k) {
      for (std::int64_t i = whole ? whole_rows : 0; i < rows; ++i) to[k * to_stride + i] = from[i * from_stride + k];
    }
  }
}

// to[k][j] = from[j][k] for 16 x 16 floats.
HWY_INLINE void transpose_sixteen(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride) {
#if HWY_TARGET <= HWY_AVX3
  const hn::FixedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> numbers;
  const auto block = hn::ShiftRight<2>(hn::Iota(numbers, 0));
  const auto mask_of = [&](std::uint32_t index)
                           HWY_ATTR { return hn::RebindMask(d, hn::Eq(block, hn::Set(numbers, index))); };
  const auto second = mask_of(1), third = mask_of(2), fourth = mask_of(3);
  for (std::int64_t k = 0; k < 16; k += 4, from += 4, to += 4 * to_stride) {
    // Parts of four rows become a vector's blocks while they are loaded, which takes no shuffle.
    const auto rows = [&](std::int64_t i) HWY_ATTR {
      auto parts = hn::LoadDup128(d, from + i * from_stride);
      parts = hn::IfThenElse(second, hn::LoadDup128(d, from + (i + 4) * from_stride), parts);
      parts = hn::IfThenElse(third, hn::LoadDup128(d, from + (i + 8) * from_stride), parts);
      return hn::IfThenElse(fourth, hn::LoadDup128(d, from + (i + 12) * from_stride), parts);
    };
    store_transposed(d, rows(0), rows(1), rows(2), rows(3), to, static_cast<std::size_t>(to_stride));
  }
#else
  transpose_by_fours(from, from_stride, 16, 16, to, to_stride);
#endif
}

// to[columns, rows] = from[rows, columns]^T; rows of each are a stride apart.
inline void simd_transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                           float* to, std::int64_t to_stride) {
  const std::int64_t whole_rows = rows / 16 * 16, whole_columns = columns / 16 * 16;
  for (std::int64_t j = 0; j < whole_columns; j += 16) {
    for (std::int64_t i = 0; i < whole_rows; i += 16) {
      transpose_sixteen(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
  }
  transpose_by_fours(from + whole_rows * from_stride, from_stride, rows - whole_rows, whole_columns, to + whole_rows,
                     to_stride);
  transpose_by_fours(from + whole_columns, from_stride, rows, columns - whole_columns, to + whole_columns * to_stride,
                     to_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
