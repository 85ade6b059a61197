// A float in two halves: the nearest bfloat16 (ties away from zero) and what brings the float back, bit for bit.
//
// So master weights of mixed precision need no copy of their own: the first half is the weight that products read, the
// second one is read and written by the optimizer alone; four bytes a weight instead of six.
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

// Ties go away from zero, not to even: from a tie to even the float could not be told. Every bit pattern comes back,
// NaN too; as with any rounding, `high` of the very largest floats is infinity.
constexpr SplitFloat split_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16), static_cast<std::int16_t>(bits & 0xFFFFU)};
}

constexpr float join_float(SplitFloat halves) {
  const std::uint32_t high = std::uint32_t{halves.high} << 16;
  return std::bit_cast<float>(high + static_cast<std::uint32_t>(std::int32_t{halves.low}));
}

}  // namespace plimsoll
