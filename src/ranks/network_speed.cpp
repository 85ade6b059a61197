#include "ranks/network_speed.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMostBytes = 8 * kMiB;  // of what a rank sends and receives at once
constexpr int kRepetitions = 5;

// Returns the shortest time of some exchanges of `bytes` with every other rank.
double exchange_seconds(Communicator& ranks, std::span<std::byte> buffer, std::size_t bytes) {
  double least = 1e9;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    barrier(ranks);
    const auto begin = std::chrono::steady_clock::now();
    const int others = ranks.size() - 1;
    for (int i = 1; i <= others; ++i) {
      const int other = (ranks.rank() + i) % ranks.size();
      ranks.receive(Communicator::kHostTicket, other, buffer.subspan(static_cast<std::size_t>(i) * bytes, bytes));
    }
    for (int i = 1; i <= others; ++i) {
      const int other = (ranks.rank() + i) % ranks.size();
      ranks.send(Communicator::kHostTicket, other, buffer.first(bytes));
    }
    ranks.wait(Communicator::kHostTicket);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

}  // namespace

NetworkSpeed measure_network(Communicator& ranks) {
  if (ranks.size() == 1) return {};
  constexpr std::size_t kSmall = 64;
  const auto places = static_cast<std::size_t>(ranks.size());  // one to send from, and one for each other rank
  const std::size_t large = std::max(2 * kSmall, kMostBytes / places);
  std::vector<std::byte> buffer(places * large);
  const auto others = static_cast<double>(ranks.size() - 1);
  const double of_small = exchange_seconds(ranks, buffer, kSmall);
  const double of_large = exchange_seconds(ranks, buffer, large);
  NetworkSpeed speed{.seconds_per_message = of_small / others,
                     .seconds_per_byte = std::max(0.0, of_large - of_small) / others / static_cast<double>(large)};
  for (const NetworkSpeed& other : all_gather(ranks, speed)) {
    speed.seconds_per_message = std::max(speed.seconds_per_message, other.seconds_per_message);
    speed.seconds_per_byte = std::max(speed.seconds_per_byte, other.seconds_per_byte);
  }
  return speed;
}

}  // namespace plimsoll
