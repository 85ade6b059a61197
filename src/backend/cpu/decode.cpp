#include "backend/cpu/decode.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/parallel.h"
#include "tensor/block_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Vectors of at most 32 floats, which is half a block of NF4.
using Floats = hn::CappedTag<float, 32>;

// Decodes the block's 64 elements.
template <class T>
HWY_INLINE void decode_q8(const std::byte* block, T* to) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<std::int8_t, Floats> di8;
  float absmax = 0;
  std::memcpy(&absmax, block, sizeof absmax);
  const auto* const codes = reinterpret_cast<const std::int8_t*>(block + sizeof absmax);
  const auto scale = hn::Set(d, absmax / 127.0F);
  for (std::int64_t i = 0; i < kCodeBlock; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto code = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(di8, codes + i)));
    store_floats(hn::Mul(code, scale), d, to + i);
  }
}

// kNormalFloats by their codes, 0 to 15. Vectors hold the table if they are wide enough, because gathering from memory
// is several times slower.
template <class Codes>
HWY_INLINE hn::Vec<Floats> normal_floats(Codes codes) {
  const Floats d;
  constexpr std::size_t kTable = kNormalFloats.size();
  if constexpr (hn::MaxLanes(Floats()) == kTable) {
    return hn::TableLookupLanes(hn::LoadU(d, kNormalFloats.data()), hn::IndicesFromVec(d, codes));
  } else if constexpr (hn::MaxLanes(Floats()) == kTable / 2) {
    const hn::RebindToSigned<Floats> di;
    const auto half = hn::IndicesFromVec(d, hn::And(codes, hn::Set(di, kTable / 2 - 1)));
    const auto low = hn::TableLookupLanes(hn::LoadU(d, kNormalFloats.data()), half);
    const auto high = hn::TableLookupLanes(hn::LoadU(d, kNormalFloats.data() + kTable / 2), half);
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(codes, hn::Set(di, kTable / 2 - 1))), high, low);
  } else {
    return hn::GatherIndex(d, kNormalFloats.data(), codes);
  }
}

template <class T>
HWY_INLINE void decode_nf4(const std::byte* block, T* to) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<std::uint8_t, Floats> du8;
  float absmax = 0;
  std::memcpy(&absmax, block, sizeof absmax);
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(block + sizeof absmax);
  const auto scale = hn::Set(d, absmax);
  constexpr std::int64_t kHalf = kCodeBlock / 2;
  for (std::int64_t i = 0; i < kHalf; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto pairs = hn::PromoteTo(di, hn::LoadU(du8, codes + i));
    const auto low = normal_floats(hn::And(pairs, hn::Set(di, 15)));
    const auto high = normal_floats(hn::ShiftRight<4>(pairs));
    store_floats(hn::Mul(low, scale), d, to + i);
    store_floats(hn::Mul(high, scale), d, to + kHalf + i);
  }
}

// Decodes `count` elements of a row, the first of which begins `block`.
void decode_part(DType dtype, const std::byte* block, std::int64_t count, void* to, DType to_type) {
  for_element_type(to_type, [&](auto element) {
    using T = decltype(element);
    auto* out = static_cast<T*>(to);
    for (; count > 0; count -= kCodeBlock, out += kCodeBlock, block += code_block_bytes(dtype)) {
      T rest[kCodeBlock];
      T* const whole = count >= kCodeBlock ? out : rest;
      if (dtype == DType::kQ8) {
        decode_q8(block, whole);
      } else {
        decode_nf4(block, whole);
      }
      if (whole == rest) std::memcpy(out, rest, static_cast<std::size_t>(count) * sizeof(T));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(decode_part);

void decode_rows(DType dtype, const void* matrix, std::int64_t columns, std::int64_t first_row, std::int64_t rows,
                 std::int64_t first_column, std::int64_t count, void* to, DType to_type) {
  if (is_half(dtype)) {
    parallel_for(rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        convert_here(
            static_cast<const std::byte*>(matrix) + bytes_of(dtype, (first_row + row) * columns + first_column), dtype,
            static_cast<std::byte*>(to) + bytes_of(to_type, row * count), to_type, count);
      }
    });
    return;
  }
  const auto part = HWY_DYNAMIC_DISPATCH(decode_part);
  const std::size_t row_bytes = coded_row_bytes(dtype, columns);
  const std::size_t offset = static_cast<std::size_t>(first_column / kCodeBlock) * code_block_bytes(dtype);
  const auto* const from = static_cast<const std::byte*>(matrix) + static_cast<std::size_t>(first_row) * row_bytes;
  const std::size_t to_bytes = static_cast<std::size_t>(count) * dtype_bytes(to_type);
  parallel_for(rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
      part(dtype, from + row * row_bytes + offset, count, static_cast<std::byte*>(to) + row * to_bytes, to_type);
    }
  });
}

void decode_columns(DType dtype, const void* row, std::int64_t first_column, std::int64_t count, float* to) {
  const std::size_t offset = static_cast<std::size_t>(first_column / kCodeBlock) * code_block_bytes(dtype);
  HWY_DYNAMIC_DISPATCH(decode_part)(dtype, static_cast<const std::byte*>(row) + offset, count, to, DType::kF32);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
