// A rank on a GPU that fails, ends or hangs ends the others, which say which one it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/reference/reference_backend.h"
#include "gpu_ranks.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"

namespace plimsoll::test {
namespace {

using testing::HasSubstr;

// A program whose ranks sum a tensor.
std::unique_ptr<Program> summing_program(Communicator& ranks, Backend& backend, std::unique_ptr<DeviceMemory>& memory) {
  Graph graph;
  CollectiveAttributes attributes{.ticket = 1, .rank = ranks.rank(), .ranks = ranks.size(), .parts = {}};
  auto& part = attributes.parts.emplace_back();
  part.type = {DType::kF32, {1000}};
  part.bounds.assign(static_cast<std::size_t>(ranks.size()) + 1, 0);
  part.bounds.back() = 1000;
  std::vector<ValueId> values = {graph.add_state("a", part.type)};
  values = graph.add_node({.op = Op::kAllReduceBegin, .name = "begin", .attributes = attributes, .inputs = values});
  graph.add_node({.op = Op::kAllReduceEnd, .name = "end", .attributes = attributes, .inputs = values});
  PreparedGraph prepared = prepare(std::move(graph), backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  memory = backend.allocate(plan.arena_bytes());
  ranks.reserve(2);
  return std::make_unique<Program>(std::move(prepared), plan, *memory, nullptr, &ranks);
}

// Every rank sums again and again; the last one does what `breaks` says after some sums. Returns what rank 0 says, and
// how long that has taken.
std::pair<std::string, double> say_after(const std::function<void(Communicator&)>& breaks,
                                         std::chrono::milliseconds timeout = std::chrono::seconds(100)) {
  ::setenv("PLIMSOLL_EMULATED_PATIENCE_MS", "50", 1);
  const auto begin = std::chrono::steady_clock::now();
  auto all = start_ranks(
      3,
      [&](Communicator& ranks) {
        const auto gpu = gpu_of_rank(ranks, timeout);
        std::unique_ptr<DeviceMemory> memory;
        const auto program = summing_program(ranks, *gpu, memory);
        for (int i = 0; i < 1000; ++i) {
          if (i == 5 && ranks.rank() == 2) breaks(ranks);
          program->run();
          program->wait();
        }
        return std::string("done");
      },
      timeout);
  std::string said = all.front().wait();
  ::unsetenv("PLIMSOLL_EMULATED_PATIENCE_MS");
  return {said, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

TEST(GpuFailure, ARankThatIsKilledIsNamed) {
  const auto [said, seconds] = say_after([](Communicator&) { ::kill(::getpid(), SIGKILL); });
  EXPECT_THAT(said, HasSubstr("error: rank 2 on "));
  EXPECT_THAT(said, HasSubstr("has ended"));
  EXPECT_LT(seconds, 30);
}

TEST(GpuFailure, ARankThatFailsIsNamedWithItsReason) {
  const auto [said, seconds] = say_after([](Communicator&) { throw EnvironmentError({.what = "the disk is full"}); });
  EXPECT_THAT(said, HasSubstr("error: rank 2 on "));
  EXPECT_THAT(said, HasSubstr("the disk is full"));
  EXPECT_LT(seconds, 30);
}

// It is alive, so that only the time tells.
TEST(GpuFailure, ARankThatHangsEndsTheOthersAfterTheTimeout) {
  const auto [said, seconds] = say_after([](Communicator&) { ::kill(::getpid(), SIGSTOP); }, std::chrono::seconds(2));
  EXPECT_THAT(said, HasSubstr("error: "));
  EXPECT_THAT(said, HasSubstr("rank 2 on "));
  EXPECT_THAT(said, HasSubstr("said nothing for"));
  EXPECT_LT(seconds, 30);
}

// The device waits for a rank that has stopped between two sums, with nothing under way on the host.
TEST(GpuFailure, ADeviceThatWaitsIsFreed) {
  ::setenv("PLIMSOLL_EMULATED_PATIENCE_MS", "50", 1);
  auto all = start_ranks(2, [&](Communicator& ranks) {
    const auto gpu = gpu_of_rank(ranks, std::chrono::seconds(2));
    gpu->start_one_by_one();
    std::unique_ptr<DeviceMemory> memory;
    const auto program = summing_program(ranks, *gpu, memory);
    program->run();
    program->wait();
    for (std::size_t n = 0; n < program->node_count(); ++n) {  // exchanges no row level first
      if (ranks.rank() == 1) ::kill(::getpid(), SIGSTOP);
      program->run_node(n);
    }
    program->wait();
    return std::string("done");
  });
  const std::string said = all.front().wait(std::chrono::seconds(60));
  ::unsetenv("PLIMSOLL_EMULATED_PATIENCE_MS");
  EXPECT_THAT(said, HasSubstr("rank 1 on "));
  EXPECT_THAT(said, HasSubstr("does not answer"));
  EXPECT_THAT(said, HasSubstr("--timeout"));
}

TEST(GpuFailure, TwoRanksOnOneGpuAreRefused) {
  const auto said = fork_ranks(2, [](Communicator& ranks) {
    ::setenv("PLIMSOLL_NCCL", PLIMSOLL_NCCL_STAND_IN, 1);
    CudaBackend backend(0);
    backend.connect(ranks, std::chrono::seconds(20));
    return std::string("connected");
  });
  for (const std::string& each : said) EXPECT_THAT(each, HasSubstr("two ranks use one GPU"));
}

}  // namespace
}  // namespace plimsoll::test
