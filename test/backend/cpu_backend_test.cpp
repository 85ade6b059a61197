#include "backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/backend_suite.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"

namespace plimsoll::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, BackendSuite,
                         testing::ValuesIn(suite_of("cpu", [] { return std::make_unique<CpuBackend>(2); })),
                         suite_test_name);

INSTANTIATE_TEST_SUITE_P(CpuBF16, BackendSuite,
                         testing::ValuesIn(suite_of(
                             "cpu", [] { return std::make_unique<CpuBackend>(2); }, ops_with_halves(), DType::kBF16)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CpuF16, BackendSuite,
                         testing::ValuesIn(suite_of(
                             "cpu", [] { return std::make_unique<CpuBackend>(2); }, ops_with_halves(), DType::kF16)),
                         suite_test_name);

TEST(CpuBackend, GivesAlignedWritableMemory) {
  CpuBackend backend;
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(5 * kMiB + 3);
  ASSERT_EQ(memory->bytes().size(), 5 * kMiB + 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->bytes().data()) % kAlignmentBytes, 0U);
  EXPECT_TRUE(
      std::all_of(memory->bytes().begin(), memory->bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
  std::fill(memory->bytes().begin(), memory->bytes().end(), std::byte{7});
  EXPECT_TRUE(backend.allocate(0)->bytes().empty());
}

TEST(CpuBackend, RefusesWhatTheSystemHasNot) {
  CpuBackend backend;
  try {
    backend.allocate(std::size_t{1} << 60);
    FAIL() << "an exabyte was given";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.problem().found, testing::HasSubstr(format_bytes(std::size_t{1} << 60)));
    EXPECT_EQ(error.exit_code(), ExitCode::kEnvironment);
  }
}

TEST(CpuBackend, UsesTheCoresThatItMay) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(CpuBackend().threads(), available_cores());
  EXPECT_EQ(CpuBackend(3).threads(), 3);
}

TEST(CpuBackend, RefusesTypesThatItDoesNotCompute) {
  Graph graph;
  const ValueId a = graph.add_input("half", {DType::kBF16, {2, 3}});
  graph.add_node({.op = Op::kSumSquares, .name = "sum", .inputs = {a}});
  CpuBackend backend;
  try {
    backend.prepare(graph, graph.node(0));
    FAIL() << "bf16 was taken";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.problem().what, testing::AllOf(testing::HasSubstr("'sum'"), testing::HasSubstr("BF16[2, 3]")));
  }
}

}  // namespace
}  // namespace plimsoll::test
