// Vector functions that updates share, compiled once for each Highway target: sums of squares, split parameters, 8-bit
// codes. Include it after hwy/highway.h and simd_math-inl.h in a file that uses foreach_target.h.
#if defined(PLIMSOLL_BACKEND_CPU_UPDATE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_UPDATE_MATH_INL_H_
#undef PLIMSOLL_BACKEND_CPU_UPDATE_MATH_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_UPDATE_MATH_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "tensor/code_table.h"

#ifndef PLIMSOLL_BACKEND_CPU_UPDATE_MATH_ONCE
#define PLIMSOLL_BACKEND_CPU_UPDATE_MATH_ONCE
namespace plimsoll {

// Table look-ups one by one beat gather instructions (0.4 against 0.7 ns each, on an EPYC with AVX-512). This function
// is outside the target blocks, compiled for the baseline, so that the compiler does not turn it into gathers. The
// arrays must not overlap.
template <typename Value, typename Index>
HWY_NOINLINE void look_up(const Value* HWY_RESTRICT table, const Index* HWY_RESTRICT indices, std::size_t count,
                          Value* HWY_RESTRICT values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = table[indices[i]];
}

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls step(d, i) for whole vectors, then lane by lane for the remainder.
template <class Step>
HWY_INLINE void for_each_vector(std::size_t count, const Step& step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one_lane;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) step(d, i);
  for (; i < count; ++i) step(one_lane, i);
}

// Joins split floats as tensor/split_float.h does.
struct JoinStep {
  const std::uint16_t* high;
  const std::int16_t* low;
  float* joined;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::uint16_t, D> du16;
    const hn::Rebind<std::int16_t, D> di16;
    const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(di, hn::LoadU(du16, high + i)));
    const auto lower = hn::PromoteTo(di, hn::LoadU(di16, low + i));
    hn::StoreU(hn::BitCast(d, hn::Add(upper, lower)), d, joined + i);
  }
};

struct SplitStep {
  const float* joined;
  std::uint16_t* high;
  std::int16_t* low;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<std::uint16_t, D> du16;
    const hn::Rebind<std::int16_t, D> di16;
    const auto bits = hn::BitCast(du, hn::LoadU(d, joined + i));
    const auto upper = hn::ShiftRight<16>(hn::Add(bits, hn::Set(du, 0x8000U)));
    const auto lower = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(di, bits)));  // sign-extended
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, upper)), du16, high + i);
    hn::StoreU(hn::DemoteTo(di16, lower), di16, low + i);
  }
};

struct ScaleStep {
  float factor;
  float* values;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), hn::Set(d, factor)), d, values + i);
  }
};

// Decodes a block of tensor/dynamic_code.h.
HWY_INLINE void decode_block(const CodeMap& map, const std::uint8_t* codes, float absmax, std::size_t count,
                             float* values) {
  look_up(map.data(), codes, count, values);
  for_each_vector(count, ScaleStep{absmax, values});
}

// Clamps the bits of a magnitude to the cells of the table.
template <class Table, class DI>
HWY_INLINE hn::Vec<DI> magnitude_bits(DI di, hn::Vec<DI> x) {
  const auto bits = hn::And(x, hn::Set(di, 0x7FFFFFFF));
  return hn::Min(hn::Max(bits, hn::Set(di, static_cast<std::int32_t>(Table::kLowest))),
                 hn::Set(di, static_cast<std::int32_t>(Table::kOne)));
}

// Divides values by the divisor and finds the cells of their magnitudes in the code table.
template <int kRestBits>
struct CellStep {
  using Table = CodeTable<kRestBits>;
  const float* values;
  float divisor;
  std::int32_t* scaled;  // bits of floats
  std::int32_t* cells;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const auto x = hn::BitCast(di, hn::Div(hn::LoadU(d, values + i), hn::Set(d, divisor)));
    const auto cell = hn::ShiftRight<kRestBits>(magnitude_bits<Table>(di, x));
    hn::StoreU(x, di, scaled + i);
    hn::StoreU(hn::Sub(cell, hn::Set(di, static_cast<std::int32_t>(Table::kFirstCell))), di, cells + i);
  }
};

// Computes codes from the cells' entries.
template <int kRestBits, bool kHasSign>
struct CodeStep {
  using Table = CodeTable<kRestBits>;
  const std::int32_t* scaled;
  const std::int32_t* entries;
  std::uint8_t* codes;
  template <class D>
  HWY_INLINE void operator()(D, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::uint8_t, D> du8;
    const auto x = hn::LoadU(di, scaled + i);
    const auto rest = hn::And(magnitude_bits<Table>(di, x), hn::Set(di, static_cast<std::int32_t>(Table::kRest)));
    auto code = hn::ShiftRight<kRestBits>(hn::Add(hn::LoadU(di, entries + i), rest));
    if constexpr (kHasSign) {  // 127 is 0; there is a code for 1 but not for -1
      const auto zero_code = hn::Set(di, 127);
      code = hn::IfThenElse(hn::Lt(x, hn::Zero(di)), hn::Sub(zero_code, hn::Min(code, zero_code)),
                            hn::Add(zero_code, code));
    } else {  // as in square_code: bits of 0 give 0, and other bits at least 1
      code = hn::Max(code, hn::Min(x, hn::Set(di, 1)));
    }
    hn::StoreU(hn::DemoteTo(du8, code), du8, codes + i);
  }
};

inline float largest_magnitude(const float* values, std::size_t count) {
  const hn::ScalableTag<float> d;
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) largest = hn::Max(largest, hn::Abs(hn::LoadU(d, values + i)));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) result = result < values[i] ? values[i] : result < -values[i] ? -values[i] : result;
  return result;
}

// Writes the codes of a block and returns its absmax.
template <bool kHasSign, int kRestBits>
HWY_INLINE float encode_block(const CodeTable<kRestBits>& table, const float* values, std::size_t count,
                              std::uint8_t* codes) {
  HWY_ALIGN std::int32_t scaled[kStateBlock], cells[kStateBlock], entries[kStateBlock];
  const float absmax = largest_magnitude(values, count);
  for_each_vector(count, CellStep<kRestBits>{values, absmax > 0 ? absmax : 1.0F, scaled, cells});
  look_up(table.entries.data(), cells, count, entries);
  for_each_vector(count, CodeStep<kRestBits, kHasSign>{scaled, entries, codes});
  return absmax;
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_BACKEND_CPU_UPDATE_MATH_INL_H_
