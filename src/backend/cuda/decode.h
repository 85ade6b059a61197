// Numbers of coded matrices (tensor/block_code.h), one at a time.
#pragma once

#include <array>

#include "backend/cuda/device.h"
#include "tensor/block_code.h"

namespace plimsoll::cuda {

PLIMSOLL_TABLE std::array<float, 16> kNormalFloatTable = kNormalFloats;

// Returns element `column` of a row.
template <DType kCode>
__device__ inline float decoded(const std::uint8_t* row, std::int64_t column) {
  const std::uint8_t* const block = row + column / kCodeBlock * static_cast<std::int64_t>(code_block_bytes(kCode));
  const float absmax = *reinterpret_cast<const float*>(block);
  const std::uint8_t* const codes = block + sizeof absmax;
  const std::int64_t index = column % kCodeBlock;
  if constexpr (kCode == DType::kQ8) {
    return static_cast<float>(static_cast<std::int8_t>(codes[index])) * (absmax / 127.0F);
  } else {
    const unsigned pair = codes[index % (kCodeBlock / 2)];
    return kNormalFloatTable[index < kCodeBlock / 2 ? pair & 15U : pair >> 4U] * absmax;
  }
}

}  // namespace plimsoll::cuda
