#include "backend/cpu/convert.h"

#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/convert.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

void convert_range(const void* from, DType from_type, void* to, DType to_type, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for_element_type(from_type, [&](auto source) {
    for_element_type(to_type, [&](auto target) {
      const auto* const in = static_cast<const decltype(source)*>(from);
      auto* const out = static_cast<decltype(target)*>(to);
      std::int64_t i = begin;
      for (; i + lanes <= end; i += lanes) store_floats(load_floats(d, in + i), d, out + i);
      for (; i < end; ++i) store_float(load_float(in + i), out + i);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(convert_range);

void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count) {
  constexpr std::int64_t kGrain = 4096;  // below this, waking the team costs more than the work
  const auto range = HWY_DYNAMIC_DISPATCH(convert_range);
  parallel_for(count, kGrain,
               [&](std::int64_t begin, std::int64_t end) { range(from, from_type, to, to_type, begin, end); });
}

void convert_here(const void* from, DType from_type, void* to, DType to_type, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(convert_range)(from, from_type, to, to_type, 0, count);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
