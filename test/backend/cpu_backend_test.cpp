#include "backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/backend_suite.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"
#include "graph/build.h"
#include "support/sanitizer.h"

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

// The heap of the products that a step has, while they run; the kernel measures it.
TEST(CpuBackend, SaysWhatLibrariesAllocateWhileProductsRun) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer holds what is freed";
  mallopt(M_MMAP_THRESHOLD, 64 * 1024);  // as the program has it: buffers go back at once
  constexpr std::int64_t kRows = 1900, kInner = 768, kColumns = 3072;
  constexpr std::size_t kReserve = 3 * kMiB;  // of the 4 MiB of every run, which uses 1 MiB for the rest
  for (const int threads : {1, 2, 3, 4, 5, 8, 16}) {
    CpuBackend backend(threads);
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::kF32, {kRows, kInner}});
    const ValueId weight = graph.add_input("weight", {DType::kF32, {kColumns, kInner}});
    const ValueId y = linear(graph, "y", x, weight, kNoValue, kNoValue);
    graph.add_node({.op = Op::kLinearInputGrad, .name = "dx", .inputs = {y, weight}});
    graph.add_node({.op = Op::kLinearWeightGrad, .name = "dweight", .inputs = {y, x}});
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<TensorView> views;
    for (const Value& value : graph.values()) {
      memory.push_back(backend.allocate(value.type.bytes()));
      views.emplace_back(value.type, memory.back()->bytes().data());
    }
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::size_t scratch_bytes = 0;
    for (const Node& node : graph.nodes()) {
      kernels.push_back(backend.prepare(graph, node));
      scratch_bytes = std::max(scratch_bytes, kernels.back()->scratch_bytes());
    }
    const std::unique_ptr<DeviceMemory> scratch = backend.allocate(scratch_bytes);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      std::vector<TensorView> inputs, outputs;
      for (const ValueId id : graph.nodes()[i].inputs) inputs.push_back(views[static_cast<std::size_t>(id)]);
      for (const ValueId id : graph.nodes()[i].outputs) outputs.push_back(views[static_cast<std::size_t>(id)]);
      const KernelArguments arguments{.inputs = inputs, .outputs = outputs, .scratch = scratch->bytes()};
      kernels[i]->run(arguments);  // the team's stacks come with the first
      release_free_heap();
      if (!reset_peak_resident()) GTEST_SKIP() << "the kernel does not reset VmHWM";
      const std::size_t before = resident_bytes();
      kernels[i]->run(arguments);
      EXPECT_LE(peak_resident_bytes(), before + kReserve + backend.library_bytes()) << threads << " threads, " << i;
    }
  }
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
