// Obtains dropout's masks on any backend from what it leaves of known values.
#pragma once

#include <array>
#include <vector>

#include "backend/op_case.h"

namespace plimsoll::test {

using Keys = std::vector<std::array<std::int32_t, 2>>;  // (sample, token) of each row

inline std::vector<double> flat(const Keys& keys) {
  std::vector<double> values;
  for (const auto& [sample, token] : keys) values.insert(values.end(), {double(sample), double(token)});
  return values;
}

// Applies dropout to ones.
inline std::vector<double> hidden_mask(Backend& backend, DType dtype, const Keys& keys, std::int64_t width,
                                       DropoutAttributes attributes,
                                       const std::vector<double>& dropout_key = {11, 12}) {
  const auto rows = static_cast<std::int64_t>(keys.size());
  Graph graph;
  const ValueId x = graph.add_input("x", {dtype, {rows, width}});
  const ValueId row_keys = graph.add_input("row_keys", {DType::kI32, {rows, 2}});
  const ValueId key = graph.add_input("dropout_key", {DType::kI32, {2}});
  dropout(graph, "y", x, row_keys, key, attributes, kNoValue);
  GraphRunner runner(graph, backend);
  runner.set(x, std::vector<double>(static_cast<std::size_t>(rows * width), 1.0));
  runner.set(row_keys, flat(keys));
  runner.set(key, dropout_key);
  runner.run();
  return runner.made("y");
}

// Runs attention on samples of `lengths` rows with equal scores and values that are unit vectors by the key's index in
// its sample, so that output [i][j] is the dropped-out probability of key j for query i. It has one head.
inline std::vector<double> attention_mask(Backend& backend, DType dtype, const Keys& keys,
                                          const std::vector<std::int32_t>& lengths, double p, std::int64_t width) {
  const auto rows = static_cast<std::int64_t>(keys.size());
  std::vector<double> v(static_cast<std::size_t>(rows * width), 0.0), offsets = {0};
  for (const std::int32_t length : lengths) {
    for (std::int64_t j = 0; j < length; ++j) {
      v[static_cast<std::size_t>((static_cast<std::int64_t>(offsets.back()) + j) * width + j)] = 1.0;
    }
    offsets.push_back(offsets.back() + length);
  }
  Graph graph;
  const auto zeros = [&](const char* name, Shape shape) { return graph.add_input(name, {dtype, shape}); };
  const auto integers = [&](const char* name, Shape shape) { return graph.add_input(name, {DType::kI32, shape}); };
  const ValueId q = zeros("q", {rows, width}), k = zeros("k", {rows, width}), v_value = zeros("v", {rows, width});
  const AttentionContext context{.sample_offsets = integers("offsets", {static_cast<std::int64_t>(offsets.size())}),
                                 .key_mask = integers("key_mask", {rows}),
                                 .row_keys = integers("row_keys", {rows, 2}),
                                 .dropout_key = integers("dropout_key", {2})};
  attention(graph, "attention", q, k, v_value, context, {.heads = 1, .dropout_p = p, .site = 3}, kNoValue);
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

}  // namespace plimsoll::test
