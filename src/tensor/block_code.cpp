#include "tensor/block_code.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace plimsoll {
namespace {

constexpr float kLargestByte = 127;

// The border between two codes is the midpoint between their numbers.
constexpr std::array<float, kNormalFloats.size() - 1> kMiddles = [] {
  std::array<float, kNormalFloats.size() - 1> middles{};
  for (std::size_t i = 0; i < middles.size(); ++i) middles[i] = (kNormalFloats[i] + kNormalFloats[i + 1]) / 2;
  return middles;
}();

float decode(DType dtype, const std::byte* block, std::int64_t index) {
  float absmax = 0;
  std::memcpy(&absmax, block, sizeof absmax);
  const std::byte* const codes = block + sizeof absmax;
  if (dtype == DType::kQ8) return static_cast<float>(static_cast<std::int8_t>(codes[index])) * (absmax / kLargestByte);
  const auto byte = static_cast<std::uint8_t>(codes[index % (kCodeBlock / 2)]);
  return kNormalFloats[index < kCodeBlock / 2 ? byte & 15U : byte >> 4U] * absmax;
}

}  // namespace

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::uint8_t normal_float_code(float share) {
  return static_cast<std::uint8_t>(std::ranges::count_if(kMiddles, [share](float middle) { return middle < share; }));
}

void encode_row(DType dtype, std::span<const float> from, std::byte* to, Factor factor) {
  const float of_row = factor == Factor::kOfRow ? largest_magnitude(from) : 0;
  std::memset(to, 0, coded_row_bytes(dtype, static_cast<std::int64_t>(from.size())));
  for (; !from.empty(); to += code_block_bytes(dtype)) {
    const std::span<const float> block = from.first(std::min<std::size_t>(kCodeBlock, from.size()));
    from = from.subspan(block.size());
    const float absmax = factor == Factor::kOfRow ? of_row : largest_magnitude(block);
    std::memcpy(to, &absmax, sizeof absmax);
    std::byte* const codes = to + sizeof absmax;
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (dtype == DType::kQ8) {
        const float share = absmax == 0 ? 0 : block[i] / absmax;
        codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(std::lround(share * kLargestByte)));
        continue;
      }
      const std::byte code{normal_float_code(block[i] * normal_float_scale(absmax))};
      constexpr std::size_t kHalf = kCodeBlock / 2;
      codes[i % kHalf] |= i < kHalf ? code : code << 4;
    }
  }
}

void decode_row(DType dtype, const std::byte* row, std::int64_t first, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t element = first + static_cast<std::int64_t>(i);
    const std::byte* const block = row + static_cast<std::size_t>(element / kCodeBlock) * code_block_bytes(dtype);
    to[i] = decode(dtype, block, element % kCodeBlock);
  }
}

}  // namespace plimsoll
