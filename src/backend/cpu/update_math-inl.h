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

#include "backend/cpu/code_table.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls step(d, i) for whole vectors, then one lane at a time for what is left.
template <class Step>
HWY_INLINE void for_each_vector(std::size_t count, const Step& step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one_lane;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) step(d, i);
  for (; i < count; ++i) step(one_lane, i);
}

// tensor/split_float.h
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
    const auto lower = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(di, bits)));  // sign and all
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, upper)), du16, high + i);
    hn::StoreU(hn::DemoteTo(di16, lower), di16, low + i);
  }
};

// One block of tensor/dynamic_code.h
struct DecodeStep {
  const CodeMap& map;
  const std::uint8_t* codes;
  float absmax;
  float* values;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::uint8_t, D> du8;
    const auto index = hn::PromoteTo(di, hn::LoadU(du8, codes + i));
    hn::StoreU(hn::Mul(hn::GatherIndex(d, map.data(), index), hn::Set(d, absmax)), d, values + i);
  }
};

template <bool kHasSign>
struct EncodeStep {
  const float* values;
  float divisor;
  std::uint8_t* codes;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    constexpr int kRestBits = kHasSign ? 17 : 16;
    using Table = CodeTable<kRestBits>;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::uint8_t, D> du8;
    const std::int32_t* entries = nullptr;
    if constexpr (kHasSign) {
      entries = kSignedCodeTable.entries.data();
    } else {
      entries = kUnsignedCodeTable.entries.data();
    }
    const auto x = hn::BitCast(di, hn::Div(hn::LoadU(d, values + i), hn::Set(d, divisor)));
    auto bits = hn::And(x, hn::Set(di, 0x7FFFFFFF));
    bits = hn::Max(bits, hn::Set(di, static_cast<std::int32_t>(Table::kLowest)));
    bits = hn::Min(bits, hn::Set(di, static_cast<std::int32_t>(Table::kOne)));
    const auto cell = hn::Sub(hn::ShiftRight<kRestBits>(bits), hn::Set(di, static_cast<std::int32_t>(Table::kFirstCell)));
    const auto rest = hn::And(bits, hn::Set(di, static_cast<std::int32_t>(Table::kRest)));
    auto code = hn::ShiftRight<kRestBits>(hn::Add(hn::GatherIndex(di, entries, cell), rest));
    if constexpr (kHasSign) {  // 127 is 0; there is a 1 but no -1
      const auto zero_code = hn::Set(di, 127);
      code = hn::IfThenElse(hn::Lt(x, hn::Zero(di)), hn::Sub(zero_code, hn::Min(code, zero_code)),
                            hn::Add(zero_code, code));
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
template <bool kHasSign>
HWY_INLINE float encode_block(const float* values, std::size_t count, std::uint8_t* codes) {
  const float absmax = largest_magnitude(values, count);
  for_each_vector(count, EncodeStep<kHasSign>{values, absmax > 0 ? absmax : 1.0F, codes});
  return absmax;
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_BACKEND_CPU_UPDATE_MATH_INL_H_
