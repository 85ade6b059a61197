#include "ranks/network_speed.h"

#include <gtest/gtest.h>

#include "support/thread_ranks.h"

namespace plimsoll::test {
namespace {

TEST(NetworkSpeed, IsTheSameOnAllRanksAndNoPartOfTheTraffic) {
  std::vector<NetworkSpeed> speeds(3);
  run_ranks(3, [&](Communicator& ranks) {
    speeds[static_cast<std::size_t>(ranks.rank())] = measure_network(ranks);
    EXPECT_EQ(ranks.traffic().sent_bytes, 0U);
  });
  EXPECT_GT(speeds[0].seconds_per_message, 0);
  EXPECT_GE(speeds[0].seconds_per_byte, 0);
  for (const NetworkSpeed& speed : speeds) {
    EXPECT_EQ(speed.seconds_per_message, speeds[0].seconds_per_message);
    EXPECT_EQ(speed.seconds_per_byte, speeds[0].seconds_per_byte);
  }
}

TEST(NetworkSpeed, OfASingleRankIsNothing) {
  run_ranks(1, [](Communicator& ranks) { EXPECT_EQ(measure_network(ranks).seconds_per_byte, 0); });
}

}  // namespace
}  // namespace plimsoll::test
