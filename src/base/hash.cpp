#include "base/hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace plimsoll {
namespace {

constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15U;  // odd, so that each step can be undone: nothing is lost
constexpr std::size_t kLanes = 8;                           // as many as hide a multiplication's latency
constexpr std::size_t kBlockBytes = kLanes * sizeof(std::uint64_t);

// The rotation brings high bits, which a product only moves up, back down.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) { return std::rotl(hash ^ word, 29) * kMultiplier; }

void mix_block(std::array<std::uint64_t, kLanes>& lanes, const std::byte* bytes) {
  std::array<std::uint64_t, kLanes> words;
  std::memcpy(words.data(), bytes, kBlockBytes);
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], words[i]);
}

}  // namespace

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::array<std::uint64_t, kLanes> lanes;
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = seed + (i + 1) * kMultiplier;
  std::size_t done = 0;
  for (; done + kBlockBytes <= bytes.size(); done += kBlockBytes) mix_block(lanes, bytes.data() + done);
  std::array<std::byte, kBlockBytes> rest{};
  if (done < bytes.size()) {
    std::memcpy(rest.data(), bytes.data() + done, bytes.size() - done);
    mix_block(lanes, rest.data());
  }
  std::uint64_t hash = mix(seed, bytes.size());  // which tells zeros at the end from nothing
  for (const std::uint64_t lane : lanes) hash = mix(hash, lane);
  hash = (hash ^ hash >> 32) * kMultiplier;
  return hash ^ hash >> 29;
}

}  // namespace plimsoll
