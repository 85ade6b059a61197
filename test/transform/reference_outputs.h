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

// `settle` may change the values of a source: floating ones are from -1 to 1, integers from 0 to 32,767.
inline std::vector<std::vector<double>> reference_outputs(
    const Graph& graph, const std::function<void(const Value&, std::vector<double>&)>& settle) {
  EXPECT_NO_THROW(verify(graph));
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  std::uint32_t seed = 0;
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode) continue;
    std::vector<double> values;
    for (std::int64_t i = 0; i < value.type.shape.elements(); ++i) {
      const auto random = static_cast<int>((1103515245U * ++seed + 12345U) >> 16 & 0x7fffU);
      values.push_back(value.type.dtype == DType::kI32 ? random : random / 16384.0 - 1);
    }
    settle(value, values);
    runner.set(value.name, values);
  }
  runner.run();
  std::vector<std::vector<double>> outputs;
  for (const ValueId output : graph.outputs()) outputs.push_back(runner.made(output));
  return outputs;
}

}  // namespace plimsoll::test
