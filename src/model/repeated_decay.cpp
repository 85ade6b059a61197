#include "model/repeated_decay.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/repeated_decay.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each value waits for its own last product, so many are multiplied in turn.
void decay_values(float* values, std::size_t count, const float* factors, std::size_t factor_count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 8 * lanes <= count; i += 8 * lanes) {
    float* const at = values + i;
    auto v0 = hn::LoadU(d, at), v1 = hn::LoadU(d, at + lanes), v2 = hn::LoadU(d, at + 2 * lanes),
         v3 = hn::LoadU(d, at + 3 * lanes), v4 = hn::LoadU(d, at + 4 * lanes), v5 = hn::LoadU(d, at + 5 * lanes),
         v6 = hn::LoadU(d, at + 6 * lanes), v7 = hn::LoadU(d, at + 7 * lanes);
    for (std::size_t k = 0; k < factor_count; ++k) {
      const auto factor = hn::Set(d, factors[k]);
      v0 = hn::Mul(v0, factor);
      v1 = hn::Mul(v1, factor);
      v2 = hn::Mul(v2, factor);
      v3 = hn::Mul(v3, factor);
      v4 = hn::Mul(v4, factor);
      v5 = hn::Mul(v5, factor);
      v6 = hn::Mul(v6, factor);
      v7 = hn::Mul(v7, factor);
    }
    hn::StoreU(v0, d, at);
    hn::StoreU(v1, d, at + lanes);
    hn::StoreU(v2, d, at + 2 * lanes);
    hn::StoreU(v3, d, at + 3 * lanes);
    hn::StoreU(v4, d, at + 4 * lanes);
    hn::StoreU(v5, d, at + 5 * lanes);
    hn::StoreU(v6, d, at + 6 * lanes);
    hn::StoreU(v7, d, at + 7 * lanes);
  }
  for (; i < count; ++i) {
    for (std::size_t k = 0; k < factor_count; ++k) values[i] *= factors[k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(decay_values);

void decay_repeatedly(std::span<float> values, std::span<const float> factors) {
  if (factors.empty()) return;
  HWY_DYNAMIC_DISPATCH(decay_values)(values.data(), values.size(), factors.data(), factors.size());
}

}  // namespace plimsoll
#endif
