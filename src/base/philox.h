// Counter-based random numbers: Philox4x32 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011). A number is a pure function of (key, counter): nothing is stored, order and threads do not matter, all
// backends agree. Seven rounds are the fewest that pass the paper's tests (BigCrush); ten are its safe choice.
//
//   PhiloxOutput r = philox4x32({token, column, site, sample}, {seed_low, seed_high});
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxOutput = std::array<std::uint32_t, 4>;

template <int kRounds = 10>
constexpr PhiloxOutput philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// Returns a uniform number in [0, 1) with 24 bits, which a float holds exactly.
constexpr float uniform_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24F; }

}  // namespace plimsoll
