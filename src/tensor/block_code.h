// Rows of numbers in 8 or 4 bits each, for frozen weights: blocks of 64 neighbours in a row share a factor, the largest
// magnitude among them (block-wise absmax; the last block of a row may be short, its codes are padded).
//
//   Q8   a signed byte c stands for c absmax / 127
//   NF4  half a byte stands for one of sixteen quantiles of the normal distribution times absmax (NormalFloat; Dettmers
//        and others 2023, "QLoRA"; the values are those of bitsandbytes)
//
// A block consists of absmax as a float, then its codes. In NF4 byte i holds element i in its lower half and i + 32 in
// its upper half.
//
//   encode_row(DType::kNF4, weights, bytes.data());       // coded_row_bytes(DType::kNF4, weights.size()) of them
//   decode_row(DType::kNF4, bytes.data(), 64, part);                                // elements from 64 on
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace plimsoll {

inline constexpr std::int64_t kCodeBlock = 64;

inline constexpr std::array<float, 16> kNormalFloats = {
    -1.0F,         -0.696192801F, -0.525073051F, -0.394917488F, -0.284441382F, -0.184773430F, -0.0910500363F, 0.0F,
    0.0795802996F, 0.160930201F,  0.246112302F,  0.337915242F,  0.440709829F,  0.562617004F,  0.722956836F,   1.0F};

// The code of a number in [-1, 1]: the nearest, and of two that are equally near the lower one.
std::uint8_t normal_float_code(float share);
// Returns the factor that a block's elements are multiplied by first: 1 / absmax as bitsandbytes computes it, so that
// the codes are the same.
inline float normal_float_scale(float absmax) { return 1 / std::max(absmax, 1e-38F); }
float largest_magnitude(std::span<const float> values);

constexpr std::size_t code_block_bytes(DType dtype) {
  return sizeof(float) + static_cast<std::size_t>(dtype == DType::kQ8 ? kCodeBlock : kCodeBlock / 2);
}
constexpr std::size_t coded_row_bytes(DType dtype, std::int64_t columns) {
  return static_cast<std::size_t>((columns + kCodeBlock - 1) / kCodeBlock) * code_block_bytes(dtype);
}

// Where the largest magnitude is taken, which is a block's factor: in the block, or in its whole row as in LLM.int8().
enum class Factor : std::uint8_t { kOfBlock, kOfRow };

// Writes the nearest code of each element. `to` has coded_row_bytes.
void encode_row(DType dtype, std::span<const float> from, std::byte* to, Factor factor = Factor::kOfBlock);
// Decodes `to`.size() elements of a coded row, from `first` on.
void decode_row(DType dtype, const std::byte* row, std::int64_t first, std::span<float> to);

}  // namespace plimsoll
