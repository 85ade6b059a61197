// Random choices for one drawn page: a Philox stream identified by (seed, page, purpose).
//
// Invariant: the look of page i depends only on the seed and i, never on how many pages are drawn or in which order;
// and a purpose (facts, layout, noise) that takes more numbers does not affect the others.
//
//   PageRandom random(seed, page_index, RandomPurpose::kLayout);
//   if (random.chance(0.3)) draw_logo(sheet, 20, 20, 60, random);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/philox.h"

namespace plimsoll::draw {

enum class RandomPurpose : std::uint32_t { kFacts = 0, kLayout = 1, kNoise = 2 };

class PageRandom {
 public:
  PageRandom(std::uint64_t seed, std::uint64_t page, RandomPurpose purpose)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        purpose_(static_cast<std::uint32_t>(purpose)),
        page_{static_cast<std::uint32_t>(page), static_cast<std::uint32_t>(page >> 32)} {}

  std::uint32_t bits() {
    if (used_ == block_.size()) {
      block_ = philox4x32({next_++, purpose_, page_[0], page_[1]}, key_);
      used_ = 0;
    }
    return block_[used_++];
  }
  // Returns a number in [0, count); count must be positive. The bias (count / 2^32) does not matter here.
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>((std::uint64_t{bits()} * count) >> 32); }
  // Returns a number in [low, high], both ends included.
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<std::uint32_t>(high - low + 1))); }
  double uniform() { return bits() * 0x1.0p-32; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }

  template <typename T, std::size_t N>
  const T& pick(const std::array<T, N>& choices) {
    return choices[below(static_cast<std::uint32_t>(N))];
  }

 private:
  PhiloxKey key_;
  std::uint32_t purpose_;
  std::array<std::uint32_t, 2> page_;
  std::uint32_t next_ = 0;
  PhiloxOutput block_{};
  std::size_t used_ = block_.size();
};

template <std::size_t N>
std::string pick(PageRandom& random, const std::array<std::string_view, N>& choices) {
  return std::string(random.pick(choices));
}

}  // namespace plimsoll::draw
