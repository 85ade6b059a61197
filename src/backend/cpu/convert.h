// Converts numbers from one floating type to another: F32, BF16, F16.
//
//   convert(x, wide, rows * width);   // whatever their types
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace plimsoll {

// to[i] = from[i] for i < count, rounded to nearest, ties to even. Runs on OpenMP's team.
void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count);

// Does the same on the calling thread alone, for kernels that divide their work themselves.
void convert_here(const void* from, DType from_type, void* to, DType to_type, std::int64_t count);

// Converts the first `count` elements.
inline void convert(const TensorView& from, const TensorView& to, std::int64_t count) {
  convert(from.raw(), from.dtype(), to.raw(), to.dtype(), count);
}

}  // namespace plimsoll
