#include "runtime/transfer_queue.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "runtime/program.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes filled(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value)); }

TransferRequest request(std::int64_t ticket, std::uint64_t offset, Bytes& bytes, bool writes) {
  return {.ticket = ticket, .offset = offset, .bytes = bytes, .writes = writes, .label = "a tensor"};
}

TEST(TransferQueue, KeepsTheOrderInWhichRequestsAreBegun) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 1 << 16);
  TransferQueue queue(file, 3);
  Bytes first = filled(5000, 1), second = filled(5000, 2), between(5000), after(5000);
  queue.begin(request(0, 0, first, true));
  queue.begin(request(1, 0, between, false));
  queue.begin(request(0, 0, second, true));
  queue.begin(request(2, 0, after, false));
  queue.wait(1);
  EXPECT_TRUE(between == first);
  queue.wait(2);
  EXPECT_TRUE(after == second);
  queue.wait(0);
}

TEST(TransferQueue, ManyMoreRequestsThanItHasRoomFor) {
  const ScratchFolder folder;
  constexpr int kCount = 1000;
  OffloadFile file(folder.path(), kCount * kOffloadAlignment);
  TransferQueue queue(file, 2);
  std::vector<Bytes> out, in(kCount, Bytes(300));
  for (int i = 0; i < kCount; ++i) out.push_back(filled(300, i % 251));
  for (int i = 0; i < kCount; ++i) {
    queue.begin(request(0, static_cast<std::uint64_t>(i) * kOffloadAlignment, out[static_cast<std::size_t>(i)], true));
  }
  for (int i = 0; i < kCount; ++i) {
    queue.begin(request(1, static_cast<std::uint64_t>(i) * kOffloadAlignment, in[static_cast<std::size_t>(i)], false));
  }
  queue.wait(1);
  EXPECT_TRUE(in == out);
  queue.drain();
}

TEST(TransferQueue, AnUnusedTicketIsNotWaitedFor) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 1 << 16);
  TransferQueue queue(file, 3);
  queue.wait(2);
  queue.drain();
}

TEST(TransferQueue, AFailureIsToldAtEveryWaitFromThenOn) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 1 << 16);
  TransferQueue queue(file, 3);
  Bytes bytes(4096);
  queue.begin(request(0, 1 << 20, bytes, false));  // past the file's end
  expect_error<EnvironmentError>([&] { queue.wait(0); }, {"--offload", "reading at 'a tensor'", "4096 bytes"});
  queue.begin(request(1, 0, bytes, false));
  expect_error<EnvironmentError>([&] { queue.wait(1); }, {"reading at 'a tensor'"});
  expect_error<EnvironmentError>([&] { queue.drain(); }, {"reading at 'a tensor'"});
}

// Simulates a disk that fills up under a file system without reserved space.
TEST(TransferQueue, AWriteThatIsRefusedIsTold) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 1 << 16);
  TransferQueue queue(file, 1);
  Bytes bytes(8192);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  queue.begin(request(0, 16384, bytes, true));
  expect_error<EnvironmentError>([&] { queue.wait(0); }, {"writing at 'a tensor'", "File too large"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_action);
}

TEST(TransferQueue, MayEndWhileRequestsWait) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 1 << 24);
  Bytes bytes(1 << 20);
  TransferQueue queue(file, 1);
  for (int i = 0; i < 100; ++i) queue.begin(request(0, 0, bytes, true));
}

// x is stored and fetched again; its sum with itself needs it back.
TEST(TransferQueue, AProgramStoresAndFetches) {
  const ScratchFolder folder;
  const TensorType type{DType::kF32, {33, 65}};
  Graph graph;
  const ValueId x = graph.add_input("x", type);
  const auto transfer = [&](Op op, std::int64_t ticket, std::vector<ValueId> inputs) {
    return graph.add_node(
        {.op = op,
         .name = std::string(op_name(op)),
         .attributes = TransferAttributes{.ticket = ticket, .parts = {{.offset = 4096, .type = type}}},
         .inputs = std::move(inputs)});
  };
  const auto leaving = transfer(Op::kStoreBegin, 0, {x});
  transfer(Op::kStoreEnd, 0, leaving);
  const auto arrived = transfer(Op::kFetchEnd, 1, transfer(Op::kFetchBegin, 1, {}));
  const auto sum = graph.add_node({.op = Op::kAdd, .name = "sum", .inputs = {arrived[0], arrived[0]}});
  graph.mark_output(sum[0]);
  ReferenceBackend backend;
  PreparedGraph prepared = prepare(std::move(graph), backend);
  PersistentLayout layout;
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  const auto memory = backend.allocate(plan.arena_bytes());
  OffloadFile file(folder.path(), 1 << 16);
  TransferQueue queue(file, 2);
  const Program program(std::move(prepared), plan, *memory, &queue);
  const TensorView input = program.source("x").view();
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 33 * 65; ++i)
      input.data<float>()[i] = static_cast<float>(i + 1) + static_cast<float>(round);
    program.run();
    const TensorView output = program.view(program.graph().outputs()[0]);
    for (std::size_t i = 0; i < 33 * 65; ++i) {
      ASSERT_EQ(output.data<float>()[i], 2 * (static_cast<float>(i + 1) + static_cast<float>(round)));
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
