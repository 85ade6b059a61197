// A float split in two halves: the nearest bfloat16 (ties away from zero) and the rest that restores the float exactly.
//
// So the master weights of mixed precision need no separate copy: the first half is the weight that products read, and
// only the optimizer reads and writes the second one; this takes four bytes per weight instead of six.
//
//   const SplitFloat halves = split_float(1.001F);
//   bfloat16_to_float(halves.high);   // 1.0F
//   join_float(halves);               // 1.001F
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

struct SplitFloat {
  std::uint16_t high = 0;  // bfloat16
  std::int16_t low = 0;    // the float's bits minus high's, in units of its last place
};

// Ties go away from zero, not to even, because a tie to even could not be undone. Every bit pattern is restored, NaN
// too; as with any rounding, `high` is infinity for the very largest floats.
constexpr SplitFloat split_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16), static_cast<std::int16_t>(bits & 0xFFFFU)};
}

constexpr float join_float(SplitFloat halves) {
  const std::uint32_t high = std::uint32_t{halves.high} << 16;
  return std::bit_cast<float>(high + static_cast<std::uint32_t>(std::int32_t{halves.low}));
}

}  // namespace plimsoll
