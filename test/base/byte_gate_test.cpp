#include "base/byte_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

TEST(ByteGate, KeepsWhatThreadsHoldWithinTheLimit) {
  constexpr std::uint64_t kLimit = 10;
  ByteGate gate(kLimit);
  std::atomic<std::uint64_t> held = 0, most = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t bytes = 1 + (7 * i + thread) % 6;
        const ByteGate::Pass pass(gate, bytes);
        const std::uint64_t now = held += bytes;
        std::uint64_t before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        std::this_thread::yield();
        held -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, kLimit);
  EXPECT_EQ(held, 0U);
}

TEST(ByteGate, LetsPassTogetherWhatFits) {
  ByteGate gate(10);
  const ByteGate::Pass first(gate, 6);
  bool passed = false;
  std::thread([&] {
    const ByteGate::Pass second(gate, 4);  // waits for ever if only one may pass
    passed = true;
  }).join();
  EXPECT_TRUE(passed);
}

TEST(ByteGate, LetsMoreThanTheLimitPassAlone) {
  ByteGate gate(10);
  std::atomic<bool> large = false, small_beside_it = false;
  std::thread other;
  {
    const ByteGate::Pass pass(gate, 25);
    large = true;
    other = std::thread([&] {
      const ByteGate::Pass small(gate, 1);
      small_beside_it = large.load();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    large = false;
  }
  other.join();
  EXPECT_FALSE(small_beside_it);
}

}  // namespace
}  // namespace plimsoll
