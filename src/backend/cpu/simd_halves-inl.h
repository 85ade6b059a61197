// Loads and stores floats that are kept as F32, BF16 or F16, compiled once for each Highway target. Arithmetic is
// always in F32; a store to a half rounds to nearest, ties to even, as tensor/half.h does (for F16 on machines without
// F16C: Highway's own rounding).
//
// Kernels take untyped pointers and the dtype, and are written once for all element types:
//
//   for_element_type(dtype, [&](auto element) {
//     using T = decltype(element);
//     store_floats(hn::Add(load_floats(d, static_cast<const T*>(a)), one), d, static_cast<T*>(y));
//   });
#if defined(PLIMSOLL_BACKEND_CPU_SIMD_HALVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_SIMD_HALVES_INL_H_
#undef PLIMSOLL_BACKEND_CPU_SIMD_HALVES_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_SIMD_HALVES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(float()), body(hwy::bfloat16_t()) or body(hwy::float16_t()).
template <class Body>
HWY_INLINE void for_element_type(DType dtype, const Body& body) {
  if (dtype == DType::kBF16) {
    body(hwy::bfloat16_t());
  } else if (dtype == DType::kF16) {
    body(hwy::float16_t());
  } else {
    body(float());
  }
}

template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const hwy::bfloat16_t* from) {
  const hn::Rebind<std::uint16_t, D> du16;
  const hn::RebindToUnsigned<D> du32;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du32, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const hwy::float16_t* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, from));
}

template <class D>
HWY_INLINE void store_floats(hn::Vec<D> values, D d, float* to) {
  hn::StoreU(values, d, to);
}
template <class D>
HWY_INLINE void store_floats(hn::Vec<D> values, [[maybe_unused]] D d, hwy::bfloat16_t* to) {
  const hn::Rebind<std::uint16_t, D> du16;
  const hn::RebindToUnsigned<D> du32;
  const hn::RebindToSigned<D> di32;
  const auto bits = hn::BitCast(du32, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7FFF))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du32, 0x40));
  const auto narrow = hn::IfThenElse(hn::RebindMask(du32, hn::IsNaN(values)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, narrow)), du16, reinterpret_cast<std::uint16_t*>(to));
}
template <class D>
HWY_INLINE void store_floats(hn::Vec<D> values, [[maybe_unused]] D d, hwy::float16_t* to) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, values), half, to);
}

// Stores one element with the same rounding.
template <class T>
HWY_INLINE float load_float(const T* from) {
  return hn::GetLane(load_floats(hn::CappedTag<float, 1>(), from));
}
template <class T>
HWY_INLINE void store_float(float value, T* to) {
  const hn::CappedTag<float, 1> one;
  store_floats(hn::Set(one, value), one, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
