#include "backend/cpu/wide_softmax.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/wide_softmax.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

float largest_of(const float* row, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto most = hn::Set(d, row[0]), nan = hn::Zero(d);  // `nan` stays 0 if no element is NaN
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto x = hn::LoadU(d, row + c);
    most = hn::Max(most, x);
    nan = hn::IfThenElse(hn::Eq(x, x), nan, x);
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, most)), any = hn::GetLane(hn::SumOfLanes(d, nan));
  for (; c < count; ++c) {
    largest = std::max(largest, row[c]);
    if (std::isnan(row[c])) any = row[c];
  }
  return std::isnan(any) ? any : largest;
}

double sum_of_exponentials(const float* row, std::int64_t count, float largest) {
  // This many columns are summed in floats: the error of a hundred roundings per lane does not exceed that of the
  // exponentials.
  constexpr std::int64_t kBlock = 1024;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, largest);
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t end = std::min(count, first + kBlock);
    auto sum = hn::Zero(d);
    std::int64_t c = first;
    for (; c + lanes <= end; c += lanes) sum = hn::Add(sum, simd_exp(d, hn::Sub(hn::LoadU(d, row + c), most)));
    total += double{hn::GetLane(hn::SumOfLanes(d, sum))};
    for (; c < end; ++c) total += std::exp(double{row[c]} - double{largest});
  }
  return total;
}

void scaled_exponentials(const float* row, std::int64_t count, float largest, float factor, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, largest), by = hn::Set(d, factor);
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    hn::StoreU(hn::Mul(by, simd_exp(d, hn::Sub(hn::LoadU(d, row + c), most))), d, to + c);
  }
  for (; c < count; ++c) to[c] = factor * std::exp(row[c] - largest);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(largest_of);
HWY_EXPORT(sum_of_exponentials);
HWY_EXPORT(scaled_exponentials);

WideSoftmax wide_softmax() {
  return {.largest = HWY_DYNAMIC_DISPATCH(largest_of),
          .exponentials = HWY_DYNAMIC_DISPATCH(sum_of_exponentials),
          .scaled = HWY_DYNAMIC_DISPATCH(scaled_exponentials)};
}

}  // namespace plimsoll
#endif  // HWY_ONCE
