// Finds the nearest dynamic code (tensor/dynamic_code.h) with one look-up instead of a search.
//
// Between two neighbouring numbers of the map lies a threshold: the largest float that is not nearer to the upper one.
// The magnitudes from just below the lowest threshold to 1 are divided into cells by the leading bits of a float: its
// exponent and as many bits of its mantissa as are needed for no cell to hold two thresholds. So within a cell there
// are two possible codes, which the remaining bits, `rest`, tell apart. The cell's entry is (lower code << bits of
// rest) + largest rest - threshold's rest: added to a magnitude's rest, it carries into the code exactly if the
// magnitude is above the threshold.
//
//   constexpr CodeTable<17> kTable = make_code_table<17>(kSignedCodes);
//   const std::uint32_t bits = std::clamp(std::bit_cast<std::uint32_t>(std::abs(x)), kTable.kLowest, kTable.kOne);
//   rank = (kTable.entries[(bits >> 17) - kTable.kFirstCell] + (bits & kTable.kRest)) >> 17;   // the magnitude's rank
//
// The rank counts the map's numbers from 0 upwards, where 0 stands for 0. Ties have the lower rank, as in nearest_code.
// For square_code, the rank of a nonzero number is then raised to at least 1.
#pragma once

#include <array>
#include <bit>

#include "tensor/dynamic_code.h"

namespace plimsoll {

template <int kRestBits>
struct CodeTable {
  static constexpr std::uint32_t kOne = std::bit_cast<std::uint32_t>(1.0F);
  static constexpr std::uint32_t kLowest = std::bit_cast<std::uint32_t>(0x1p-23F);  // below every threshold
  static constexpr std::uint32_t kFirstCell = kLowest >> kRestBits;
  static constexpr std::uint32_t kRest = (1U << kRestBits) - 1;
  std::array<std::int32_t, (kOne >> kRestBits) - kFirstCell + 1> entries{};
};

// Returns the bits of the largest float that is at most halfway from `low` to `high`, which are positive or 0.
constexpr std::uint32_t threshold_bits(float low, float high) {
  const double middle = (double{low} + double{high}) / 2;  // exact: the map's neighbours differ by few binades
  const float rounded = static_cast<float>(middle);
  return std::bit_cast<std::uint32_t>(rounded) - (double{rounded} > middle ? 1U : 0U);
}

// Fails to compile if a cell would hold two thresholds.
template <int kRestBits>
constexpr CodeTable<kRestBits> make_code_table(const CodeMap& map) {
  CodeTable<kRestBits> table;
  std::size_t zero = 0;
  while (map[zero] < 0) ++zero;
  std::uint32_t rank = 0;  // the number of thresholds in the cells so far
  for (std::size_t cell = 0; cell < table.entries.size(); ++cell) {
    std::uint32_t entry = rank << kRestBits;
    int found = 0;
    while (zero + rank + 1 < map.size()) {
      const std::uint32_t threshold = threshold_bits(map[zero + rank], map[zero + rank + 1]);
      if ((threshold >> kRestBits) - table.kFirstCell != cell) break;
      entry += table.kRest - (threshold & table.kRest);
      ++rank;
      if (++found > 1) throw "two thresholds in a cell";
    }
    table.entries[cell] = static_cast<std::int32_t>(entry);
  }
  if (zero + rank + 1 != map.size()) throw "a threshold outside all cells";
  return table;
}

inline constexpr CodeTable<17> kSignedCodeTable = make_code_table<17>(kSignedCodes);
inline constexpr CodeTable<16> kUnsignedCodeTable = make_code_table<16>(kUnsignedCodes);

}  // namespace plimsoll
