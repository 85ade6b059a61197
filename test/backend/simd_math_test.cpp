// Compares the shared vector functions with double precision and with base/philox.h, on every target of this machine.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/every_target.h"
#include "base/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../test/backend/simd_math_test.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// count must be a multiple of 64.
void exp_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(simd_exp(d, hn::LoadU(d, x + i)), d, y + i);
}
void erf_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  auto density = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(simd_erf(d, hn::LoadU(d, x + i), density), d, y + i);
}
void tanh_all(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(simd_tanh(d, hn::LoadU(d, x + i)), d, y + i);
}
// Computes the words of counters {c0, c1 + i, c2, c3}, i < count / 4, in order.
void philox_all(const PhiloxCounter& counter, const PhiloxKey& key, std::uint32_t* words, std::size_t count) {
  const hn::ScalableTag<std::uint32_t> d;
  for (std::size_t i = 0; i < count; i += 4 * hn::Lanes(d)) {
    auto w0 = hn::Zero(d), w1 = w0, w2 = w0, w3 = w0;
    simd_philox4x32<7>(d, hn::Set(d, counter[0]), hn::Iota(d, counter[1] + static_cast<std::uint32_t>(i / 4)),
                       hn::Set(d, counter[2]), hn::Set(d, counter[3]), key[0], key[1], w0, w1, w2, w3);
    hn::StoreInterleaved4(w0, w1, w2, w3, d, words + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(exp_all);
HWY_EXPORT(erf_all);
HWY_EXPORT(tanh_all);
HWY_EXPORT(philox_all);

class SimdMath : public test::EveryTarget {};

// Returns two million evenly spaced values and all magnitudes between the two; their number is a multiple of 64.
std::vector<float> floats_between(float low, float high) {
  std::vector<float> x;
  const double step = (static_cast<double>(high) - low) / 2'000'000;
  for (double v = low; v <= high; v += step) x.push_back(static_cast<float>(v));
  for (float v = 1e-30F; v < high; v *= 1.01F) {  // all magnitudes
    if (v >= low) x.push_back(v);
    if (-v >= low) x.push_back(-v);
  }
  while (x.size() % 64 != 0) x.push_back(low);
  return x;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_P(SimdMath, ExpHasSmallRelativeError) {
  const std::vector<float> x = floats_between(-87.32F, 88.36F);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(exp_all)(x.data(), y.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(y[i] - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
}

TEST_P(SimdMath, ExpAtTheEdges) {
  std::vector<float> x(64, 0.0F), y(64);
  x[1] = -kInfinity, x[2] = kInfinity, x[3] = kNan, x[4] = -1e30F, x[5] = 1e30F, x[6] = -87.4F, x[7] = 89.0F;
  HWY_DYNAMIC_DISPATCH(exp_all)(x.data(), y.data(), 64);
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[1], 0.0F);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 0.0F);
  EXPECT_EQ(y[5], kInfinity);
  EXPECT_EQ(y[6], 0.0F);
  EXPECT_EQ(y[7], kInfinity);
}

TEST_P(SimdMath, ErfHasSmallAbsoluteError) {
  const std::vector<float> x = floats_between(-6.0F, 6.0F);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(erf_all)(x.data(), y.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(y[i] - std::erf(static_cast<double>(x[i]))));
  EXPECT_LT(worst, 1e-7);
}

TEST_P(SimdMath, ErfAtTheEdges) {
  std::vector<float> x(64, 0.0F), y(64);
  x[1] = -kInfinity, x[2] = kInfinity, x[3] = kNan, x[4] = -1e30F, x[5] = 1e30F;
  HWY_DYNAMIC_DISPATCH(erf_all)(x.data(), y.data(), 64);
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], -1.0F);
  EXPECT_EQ(y[2], 1.0F);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], -1.0F);
  EXPECT_EQ(y[5], 1.0F);
}

TEST_P(SimdMath, TanhHasSmallRelativeError) {
  const std::vector<float> x = floats_between(-12.0F, 12.0F);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(tanh_all)(x.data(), y.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(x[i]));
    if (exact != 0) worst = std::max(worst, std::abs((y[i] - exact) / exact));
  }
  EXPECT_LT(worst, 4e-7);
}

TEST_P(SimdMath, TanhAtTheEdges) {
  std::vector<float> x(64, 0.0F), y(64);
  x[1] = -kInfinity, x[2] = kInfinity, x[3] = kNan, x[4] = -1e30F, x[5] = 50.0F;
  HWY_DYNAMIC_DISPATCH(tanh_all)(x.data(), y.data(), 64);
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], -1.0F);
  EXPECT_EQ(y[2], 1.0F);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], -1.0F);
  EXPECT_EQ(y[5], 1.0F);
}

TEST_P(SimdMath, PhiloxEqualsTheScalarOne) {
  const PhiloxCounter counter = {65536 + 17, 0xFFFFFFF0, 7 | (11 << 16), 3};
  const PhiloxKey key = {0x243F6A88, 0x85A308D3};
  std::vector<std::uint32_t> words(4 * 64);
  HWY_DYNAMIC_DISPATCH(philox_all)(counter, key, words.data(), words.size());
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    PhiloxCounter c = counter;
    c[1] += i / 4;
    ASSERT_EQ(words[i], philox4x32<7>(c, key)[i % 4]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SimdMath, test::all_targets(), test::target_name);

}  // namespace
}  // namespace plimsoll
#endif  // HWY_ONCE
