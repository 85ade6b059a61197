// What a graph's outputs hold on the reference backend, for numbers that are drawn for its sources, the same in every
// run: a transformed graph is compared with the one before.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "support/graph_runner.h"

namespace plimsoll::test {

// Draws values for a source, whose numbers go on where those of `seed` ended: floating ones from -1 to 1, integers from
// 0 to 32,767.
inline std::vector<double> drawn_values(const Value& value, std::uint32_t& seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < value.type.shape.elements(); ++i) {
    const auto random = static_cast<int>((1103515245U * ++seed + 12345U) >> 16 & 0x7fffU);
    values.push_back(is_floating(value.type.dtype) ? random / 16384.0 - 1 : random);
  }
  return values;
}

// `settle` may change what was drawn for a source.
inline std::vector<std::vector<double>> reference_outputs(
    const Graph& graph, const std::function<void(const Value&, std::vector<double>&)>& settle) {
  EXPECT_NO_THROW(verify(graph));
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  std::uint32_t seed = 0;
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode) continue;
    std::vector<double> values = drawn_values(value, seed);
    settle(value, values);
    runner.set(value.name, values);
  }
  runner.run();
  std::vector<std::vector<double>> outputs;
  for (const ValueId output : graph.outputs()) outputs.push_back(runner.made(output));
  return outputs;
}

}  // namespace plimsoll::test
