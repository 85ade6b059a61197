// Converts half (IEEE binary16) and bfloat16 to float and back, rounding to nearest, ties to even.
//
// Widening is exact. Narrowing overflows to infinity where IEEE 754 does, keeps subnormals, and keeps NaN (quiet, same
// sign). Bits are passed as uint16_t, so no compiler extension is needed.
//
//   std::uint16_t bits = float_to_half(1.5F);   // 0x3E00
//   float back = half_to_float(bits);           // 1.5F
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

constexpr float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

constexpr std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  // Adding half a unit less one, plus the last kept bit, carries exactly when nearest-even rounds up; a carry out of
  // the mantissa raises the exponent, and out of the largest exponent gives infinity.
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

constexpr float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) {  // infinity, or NaN made quiet
    const std::uint32_t quiet = magnitude > 0x7C00U ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13 | quiet);
  }
  if (magnitude >= 0x400U) {  // normal: the exponent's bias goes from 15 to 127
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  }
  // Subnormal: magnitude units of 2^-24, which a float holds exactly.
  const float value = static_cast<float>(magnitude) * 0x1.0p-24F;
  return sign != 0 ? -value : value;
}

constexpr std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<std::uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
  }
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65520
  if (magnitude >= 0x38800000U) {                                                   // 2^-14 and up: a normal half
    const std::uint32_t rebased = magnitude - (112U << 23);
    return static_cast<std::uint16_t>(sign | (rebased + 0xFFFU + (rebased >> 13 & 1U)) >> 13);
  }
  // The result is subnormal. Adding the value to 0.5, whose last mantissa bit is worth 2^-24, rounds it to nearest
  // even; the bits added to those of 0.5 are the half's magnitude.
  const float sum = std::bit_cast<float>(magnitude) + 0.5F;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3F000000U));
}

}  // namespace plimsoll
