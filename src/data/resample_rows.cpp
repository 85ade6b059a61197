#include "data/resample_rows.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/resample_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kFractionBits = 32 - 8 - 2;  // 8 bits of the pixel, 2 of headroom
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

void blend_rows(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::size_t bytes,
                std::uint8_t* out) {
  const hn::CappedTag<std::int32_t, 16> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const std::size_t lanes = hn::Lanes(d);
  const auto blend = [&](std::size_t i) HWY_ATTR {
    auto sum = hn::Set(d, kHalf);
    for (int k = 0; k < count; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(d8, rows[k] + i)), hn::Set(d, weights[k])));
    }
    return hn::DemoteTo(d8, hn::ShiftRight<kFractionBits>(sum));
  };
  std::size_t i = 0;
  for (; i + lanes <= bytes; i += lanes) hn::StoreU(blend(i), d8, out + i);
  if (i == bytes) return;
  std::uint8_t rest[16];
  hn::StoreU(blend(i), d8, rest);
  std::memcpy(out + i, rest, bytes - i);
}

// One pixel fills the lanes of a vector: red, green, blue and a byte of the next pixel, which is dropped.
void narrow_row(const std::uint8_t* in, const ResampleWeights& along_x, std::uint8_t* out) {
  const hn::FixedTag<std::int32_t, 4> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const std::int32_t* weight = along_x.weights.data();
  std::uint8_t pixel[4];
  for (const auto& [first, count] : along_x.windows) {
    auto sum = hn::Set(d, kHalf);
    const std::uint8_t* from = in + 3 * static_cast<std::size_t>(first);
    for (int k = 0; k < count; ++k, from += 3) {
      sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(d8, from)), hn::Set(d, weight[k])));
    }
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<kFractionBits>(sum)), d8, pixel);
    std::memcpy(out, pixel, 3);
    out += 3;
    weight += along_x.stride;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(blend_rows);
HWY_EXPORT(narrow_row);

void blend_rows(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::size_t bytes,
                std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(rows, weights, count, bytes, out);
}

void narrow_row(const std::uint8_t* in, const ResampleWeights& along_x, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(narrow_row)(in, along_x, out);
}

}  // namespace plimsoll
#endif
