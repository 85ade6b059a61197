#include "backend/cuda/matmul_buffers.h"

#include <cstddef>

#include "base/bytes.h"

namespace plimsoll::cuda {

std::optional<MatmulStrides> strides_of(std::span<const MatmulBuffers> buffers) {
  MatmulStrides strides;
  for (std::size_t i = 1; i < buffers.size(); ++i) {
    const auto fits = [&](const void* before, const void* at, std::int64_t& stride) {
      const std::int64_t distance = static_cast<const std::byte*>(at) - static_cast<const std::byte*>(before);
      if (i == 1) stride = distance;
      return distance == stride && stride >= 0 && stride % static_cast<std::int64_t>(kAlignmentBytes) == 0;
    };
    const MatmulBuffers &before = buffers[i - 1], &at = buffers[i];
    if (!fits(before.a, at.a, strides.a) || !fits(before.b, at.b, strides.b) ||
        !fits(before.bias, at.bias, strides.bias) || !fits(before.c, at.c, strides.c)) {
      return std::nullopt;
    }
  }
  return strides;
}

}  // namespace plimsoll::cuda
