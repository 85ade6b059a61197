// Tests dropout beyond agreement of backends: the fraction kept, and masks that depend on a row's key alone.
#include "base/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/dropout_masks.h"
#include "backend/reference/reference_backend.h"

namespace plimsoll::test {
namespace {

ReferenceBackend& backend() {
  static ReferenceBackend reference;
  return reference;
}

std::vector<double> hidden_mask(const Keys& keys, std::int64_t width, DropoutAttributes attributes,
                                const std::vector<double>& dropout_key = {11, 12}) {
  return test::hidden_mask(backend(), DType::kF64, keys, width, attributes, dropout_key);
}

std::vector<double> attention_mask(const Keys& keys, const std::vector<std::int32_t>& lengths, double p,
                                   std::int64_t width) {
  return test::attention_mask(backend(), DType::kF64, keys, lengths, p, width);
}

// Returns five standard deviations of a binomial count.
double tolerated(double count, double p) { return 5 * std::sqrt(count * p * (1 - p)); }

TEST(Dropout, KeepsTheShareAndTheMean) {
  Keys keys;
  for (std::int32_t i = 0; i < 200; ++i) keys.push_back({i / 50, i % 50 < 40 ? i % 50 : kVisualCoordinate + i % 50});
  for (const double p : {0.1, 0.5}) {
    const std::vector<double> mask = hidden_mask(keys, 101, {.p = p, .site = 7});
    const auto count = static_cast<double>(mask.size());
    double kept = 0;
    for (const double value : mask) {
      EXPECT_TRUE(value == 0 || value == dropout_scale(p)) << value;
      kept += value != 0 ? 1 : 0;
    }
    EXPECT_NEAR(kept, count * (1 - p), tolerated(count, p));
  }
}

TEST(Dropout, AttentionKeepsTheShare) {
  const std::int32_t length = 90;
  Keys keys;
  for (std::int32_t i = 0; i < length; ++i) keys.push_back({2, i});
  const double p = 0.25, count = length * length;
  double kept = 0;
  for (const double value : attention_mask(keys, {length}, p, length)) kept += value != 0 ? 1 : 0;
  EXPECT_NEAR(kept, count * (1 - p), tolerated(count, p));
}

TEST(Dropout, MasksDependOnKeySiteSampleAndToken) {
  const Keys keys = {{0, 0}, {0, 1}, {1, 0}, {1, kVisualCoordinate}};
  const DropoutAttributes attributes{.p = 0.5, .site = 7};
  const std::vector<double> mask = hidden_mask(keys, 64, attributes);
  EXPECT_EQ(mask, hidden_mask(keys, 64, attributes));
  EXPECT_NE(mask, hidden_mask(keys, 64, {.p = 0.5, .site = 8}));
  EXPECT_NE(mask, hidden_mask(keys, 64, attributes, {11, 13}));
  for (std::size_t a = 0; a < keys.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_FALSE(std::equal(mask.begin() + 64 * static_cast<std::ptrdiff_t>(a),
                              mask.begin() + 64 * static_cast<std::ptrdiff_t>(a + 1),
                              mask.begin() + 64 * static_cast<std::ptrdiff_t>(b)));
    }
  }
}

TEST(Dropout, HiddenMasksAreTheSameWhereverARowLies) {
  const Keys packed = {{0, 0}, {0, 1}, {0, 2}, {3, 0}, {3, 1}, {3, kVisualCoordinate}};
  const Keys alone = {{3, kVisualCoordinate}, {3, 0}, {3, 1}};
  const std::int64_t width = 37;
  const std::vector<double> both = hidden_mask(packed, width, {.p = 0.5, .site = 1});
  const std::vector<double> one = hidden_mask(alone, width, {.p = 0.5, .site = 1});
  const auto row = [&](const std::vector<double>& mask, std::int64_t index) {
    return std::vector<double>(mask.begin() + index * width, mask.begin() + (index + 1) * width);
  };
  EXPECT_EQ(row(both, 3), row(one, 1));
  EXPECT_EQ(row(both, 4), row(one, 2));
  EXPECT_EQ(row(both, 5), row(one, 0));
}

TEST(Dropout, AttentionMasksAreTheSameWhereverASampleLies) {
  const std::int64_t width = 24;
  Keys first, second;
  for (std::int32_t i = 0; i < 17; ++i) first.push_back({4, i});
  for (std::int32_t i = 0; i < 21; ++i) second.push_back({5, i < 13 ? i : kVisualCoordinate + i - 13});
  Keys both = first;
  both.insert(both.end(), second.begin(), second.end());
  const std::vector<double> packed = attention_mask(both, {17, 21}, 0.5, width);
  const std::vector<double> alone = attention_mask(second, {21}, 0.5, width);
  EXPECT_EQ(std::vector<double>(packed.begin() + 17 * width, packed.end()), alone);
}

}  // namespace
}  // namespace plimsoll::test
