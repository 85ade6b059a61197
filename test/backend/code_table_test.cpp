// Compares codes by look-up with the search over all codes where they could differ, at every threshold and its
// neighbours; as a scalar formula, and as the CPU's update stores them.
#include "tensor/code_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/philox.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

// Floats in [0, 1]: each threshold and five neighbours on either side, subnormals, a logarithmic sweep, random bits.
std::vector<float> probes(const CodeMap& map) {
  std::vector<float> list = {0.0F, 1e-45F, 1e-38F, 0x1p-24F, 0x1p-23F, 0x1p-22F, 1.0F};
  for (std::size_t code = 1; code < map.size(); ++code) {
    if (map[code - 1] < 0) continue;
    const std::uint32_t bits = threshold_bits(map[code - 1], map[code]);
    for (std::uint32_t i = 0; i < 11; ++i) list.push_back(std::bit_cast<float>(bits - 5 + i));
  }
  for (int i = 0; i < 20000; ++i) list.push_back(static_cast<float>(std::pow(10.0, -7.5 * i / 20000.0)));
  const std::uint32_t low = std::bit_cast<std::uint32_t>(1e-7F), span = std::bit_cast<std::uint32_t>(1.0F) - low;
  for (std::uint32_t i = 0; i < 50000; ++i)
    list.push_back(std::bit_cast<float>(low + philox4x32({i, 0, 0, 0}, {1, 2})[0] % span));
  return list;
}

template <int kRestBits>
std::uint32_t rank_of(const CodeTable<kRestBits>& table, float magnitude) {
  const std::uint32_t bits = std::clamp(std::bit_cast<std::uint32_t>(magnitude), table.kLowest, table.kOne);
  const auto entry = static_cast<std::uint32_t>(table.entries[(bits >> kRestBits) - table.kFirstCell]);
  return (entry + (bits & table.kRest)) >> kRestBits;
}

TEST(CodeTable, FindsTheNearestCode) {
  for (const float x : probes(kSignedCodes)) {
    ASSERT_EQ(rank_of(kSignedCodeTable, x) + 127, nearest_code(kSignedCodes, x)) << x;
    ASSERT_EQ(127 - std::min(127U, rank_of(kSignedCodeTable, x)), nearest_code(kSignedCodes, -x)) << x;
  }
  for (const float x : probes(kUnsignedCodes)) {
    ASSERT_EQ(rank_of(kUnsignedCodeTable, x), nearest_code(kUnsignedCodes, x)) << x;
  }
}

// With betas of 0 the moments are the gradient and its square, so any float can be passed to the encoder. Each block
// holds a 1, so that its elements are not scaled.
TEST(CodeTable, IsWhatTheCpuStores) {
  std::vector<double> gradient;
  for (const float x : probes(kSignedCodes)) {
    for (const float sign : {1.0F, -1.0F}) {
      if (gradient.size() % kStateBlock == 0) gradient.push_back(1);
      gradient.push_back(sign * x);
    }
  }
  const auto elements = static_cast<std::int64_t>(gradient.size());
  ASSERT_NE(elements % kStateBlock, 1);
  Graph graph;
  const auto state = [&](const char* name, DType dtype, std::int64_t count) {
    return graph.add_state(name, {dtype, {count}});
  };
  const auto updated = graph.add_node(
      {.op = Op::kAdamW,
       .name = "update",
       .attributes = AdamWAttributes{.beta1 = 0, .beta2 = 0},
       .inputs = {state("parameter", DType::kF32, elements), state("m", DType::kU8, elements),
                  state("m.absmax", DType::kF32, code_blocks(elements)), state("v", DType::kU8, elements),
                  state("v.absmax", DType::kF32, code_blocks(elements)),
                  graph.add_input("gradient", {DType::kF32, {elements}}),
                  graph.add_input("learning_rate", {DType::kF32, {1}}), graph.add_input("step", {DType::kI32, {1}}),
                  graph.add_input("clip", {DType::kF32, {1}})}});
  CpuBackend backend(2);
  GraphRunner runner(graph, backend);
  for (const char* name : {"parameter", "m", "v"}) {
    runner.set(name, std::vector<double>(static_cast<std::size_t>(elements), 0.0));
  }
  for (const char* name : {"m.absmax", "v.absmax"}) {
    runner.set(name, std::vector<double>(static_cast<std::size_t>(code_blocks(elements)), 0.0));
  }
  runner.set("gradient", gradient);
  for (const char* name : {"learning_rate", "step", "clip"}) runner.set(name, std::vector<double>{1});
  runner.run();
  const std::vector<double>&m = runner.made(updated[1]), &v = runner.made(updated[3]);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto x = static_cast<float>(gradient[i]);
    ASSERT_EQ(m[i], nearest_code(kSignedCodes, x)) << x;
    ASSERT_EQ(v[i], square_code(x * x)) << x;
  }
  for (const double absmax : runner.made(updated[2])) EXPECT_EQ(absmax, 1);
}

}  // namespace
}  // namespace plimsoll::test
