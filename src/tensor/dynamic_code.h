// Dynamic tree codes: one byte for a number in [-1, 1] or [0, 1], precise for large numbers and covering small ones
// down to 5e-7. With a scale for each block of numbers they hold an optimizer's moments in a quarter of the bytes
// (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization").
//
// There are seven decades below 1. The e-th, from 10^(e-7) to 10^(e-6), is divided into 2^e equal parts (2^(e+1)
// without a sign), whose midpoints are the code's numbers; 0 and 1 complete them, and a sign doubles all but 1. Codes
// are in the order of their numbers.
//
//   kSignedCodes[200];                                 // a number in [-1, 1]
//   nearest_code(kSignedCodes, 0.25F);                 // the code whose number is nearest
//   square_code(0.25F);                                // in kUnsignedCodes, for a second moment
//
// A block of kStateBlock consecutive elements is stored as its largest magnitude, `absmax`, and a code for each element
// divided by it. An absmax of 0 means zeros, and so do zero bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace plimsoll {

inline constexpr std::int64_t kStateBlock = 256;
constexpr std::int64_t code_blocks(std::int64_t elements) { return (elements + kStateBlock - 1) / kStateBlock; }

using CodeMap = std::array<float, 256>;

constexpr CodeMap make_code_map(bool has_sign) {
  constexpr std::array<double, 7> kDecades = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  CodeMap map{};
  std::size_t next = 0;
  map[next++] = 0.0F;
  for (std::size_t e = 0; e < kDecades.size(); ++e) {
    const std::size_t parts = std::size_t{1} << (has_sign ? e : e + 1);
    for (std::size_t part = 0; part < parts; ++part) {
      const double middle = 0.1 + 0.9 * (static_cast<double>(part) + 0.5) / static_cast<double>(parts);
      map[next++] = static_cast<float>(kDecades[e] * middle);
      if (has_sign) map[next++] = -static_cast<float>(kDecades[e] * middle);
    }
  }
  map[next++] = 1.0F;
  std::sort(map.begin(), map.end());
  return map;
}

inline constexpr CodeMap kSignedCodes = make_code_map(true);
inline constexpr CodeMap kUnsignedCodes = make_code_map(false);

// Tries all codes; of two that are equally near it takes the one of smaller magnitude. Differences of these floats are
// exact in double wherever they are close.
inline std::uint8_t nearest_code(const CodeMap& map, float x) {
  std::size_t best = 0;
  for (std::size_t code = 1; code < map.size(); ++code) {
    const double distance = std::abs(double{x} - double{map[code]}), least = std::abs(double{x} - double{map[best]});
    if (distance < least || (distance == least && std::abs(map[code]) < std::abs(map[best]))) best = code;
  }
  return static_cast<std::uint8_t>(best);
}

// Returns the code of a second moment, in [0, 1]: the nearest one, except that only 0 becomes 0. If a second moment
// vanished beside a nonzero first moment, its parameter would move by the first moment over the optimizer's epsilon,
// thousands of learning rates; with the smallest nonzero code it moves less than it should.
inline std::uint8_t square_code(float x) {
  return std::max<std::uint8_t>(nearest_code(kUnsignedCodes, x), x > 0 ? 1 : 0);
}

}  // namespace plimsoll
