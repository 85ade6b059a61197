// What dropout promises beyond agreeing between backends: the share kept, and masks that depend on a row's key alone.
#include "base/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/op_case.h"
#include "backend/reference/reference_backend.h"

namespace plimsoll::test {
namespace {

using Keys = std::vector<std::array<std::int32_t, 2>>;  // (sample, token) of each row

std::vector<double> flat(const Keys& keys) {
  std::vector<double> values;
  for (const auto& [sample, token] : keys) values.insert(values.end(), {double(sample), double(token)});
  return values;
}

// Dropout of ones.
std::vector<double> hidden_mask(const Keys& keys, std::int64_t width, DropoutAttributes attributes,
                                std::vector<double> dropout_key = {11, 12}) {
  const auto rows = static_cast<std::int64_t>(keys.size());
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF64, {rows, width}});
  const ValueId row_keys = graph.add_input("row_keys", {DType::kI32, {rows, 2}});
  const ValueId key = graph.add_input("dropout_key", {DType::kI32, {2}});
  dropout(graph, "y", x, row_keys, key, attributes, kNoValue);
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  runner.set(x, std::vector<double>(static_cast<std::size_t>(rows * width), 1.0));
  runner.set(row_keys, flat(keys));
  runner.set(key, dropout_key);
  runner.run();
  return runner.made("y");
}

// Attention of samples of `lengths` rows with equal scores, and with values that are unit vectors by the key's place in
// its sample, so that output [i][j] is the dropped probability of key j for query i. One head.
std::vector<double> attention_mask(const Keys& keys, const std::vector<std::int32_t>& lengths, double p,
                                   std::int64_t width) {
  const auto rows = static_cast<std::int64_t>(keys.size());
  std::vector<double> v(static_cast<std::size_t>(rows * width), 0.0), offsets = {0};
  for (const std::int32_t length : lengths) {
    for (std::int64_t j = 0; j < length; ++j) {
      v[static_cast<std::size_t>((static_cast<std::int64_t>(offsets.back()) + j) * width + j)] = 1.0;
    }
    offsets.push_back(offsets.back() + length);
  }
  Graph graph;
  const auto zeros = [&](const char* name, Shape shape) { return graph.add_input(name, {DType::kF64, shape}); };
  const auto integers = [&](const char* name, Shape shape) { return graph.add_input(name, {DType::kI32, shape}); };
  const ValueId q = zeros("q", {rows, width}), k = zeros("k", {rows, width}), v_value = zeros("v", {rows, width});
  const AttentionContext context{.sample_offsets = integers("offsets", {static_cast<std::int64_t>(offsets.size())}),
                                 .relative_coordinates = integers("coordinates", {rows, 3}),
                                 .key_mask = integers("key_mask", {rows}),
                                 .position_table = zeros("position", {1, 4}),
                                 .x_table = zeros("x", {1, 4}),
                                 .y_table = zeros("y", {1, 4}),
                                 .row_keys = integers("row_keys", {rows, 2}),
                                 .dropout_key = integers("dropout_key", {2})};
  attention(graph, "attention", q, k, v_value, context, {.heads = 1, .dropout_p = p, .site = 3}, kNoValue);
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  for (const Value& value : graph.values()) {
    if (value.producer == kNoNode) {
      runner.set(value.name, std::vector<double>(static_cast<std::size_t>(value.type.shape.elements()), 0.0));
    }
  }
  runner.set("v", v);
  runner.set("offsets", offsets);
  runner.set("key_mask", std::vector<double>(static_cast<std::size_t>(rows), 1.0));
  runner.set("row_keys", flat(keys));
  runner.set("dropout_key", std::vector<double>{-5, 6});
  runner.run();
  return runner.made("attention:0");
}

// Five standard deviations of a binomial count.
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
