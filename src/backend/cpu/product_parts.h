// What kernels that multiply rows share: cutting a row count that is known only at run time into primitives of fixed
// shapes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/parallel.h"

namespace plimsoll {

inline constexpr std::int64_t kStep = 16;
inline constexpr std::int64_t kGroup = 128;
inline constexpr std::int64_t kChunk = 2 * kGroup;  // rows that are widened at a time
static_assert(kGroup % kStep == 0 && kChunk % kGroup == 0);

// Products over kStep, 2 kStep, … kGroup, 2 kGroup, … rows.
class Ladder {
 public:
  // make(rows) for each rung that a run of `up_to` rows may need.
  template <typename Make>
  void fill(std::int64_t up_to, const Make& make) {
    std::int64_t rows = kStep;
    for (; rows <= std::min(kGroup, up_to + kStep - 1); rows += kStep) rungs_.push_back(make(rows));
    for (rows = 2 * kGroup; rows <= up_to; rows += kGroup) rungs_.push_back(make(rows));
  }
  const Matmul& over(std::int64_t rows) const {
    const std::int64_t rung = rows <= kGroup ? rows / kStep - 1 : kGroup / kStep - 2 + rows / kGroup;
    return *rungs_[static_cast<std::size_t>(rung)];
  }

 private:
  std::vector<const Matmul*> rungs_{};
};

inline std::size_t bytes_of(DType dtype, std::int64_t count) {
  return static_cast<std::size_t>(count) * dtype_bytes(dtype);
}

// The address of element `index`.
inline const std::byte* at(const void* data, DType dtype, std::int64_t index) {
  return static_cast<const std::byte*>(data) + bytes_of(dtype, index);
}
inline std::byte* at(void* data, DType dtype, std::int64_t index) {
  return static_cast<std::byte*>(data) + bytes_of(dtype, index);
}

// The type that rows of `dtype` are multiplied in.
inline DType product_type(DType dtype) {
  return dtype == DType::kBF16 && multiplies_bf16() ? DType::kBF16 : DType::kF32;
}

// to[rows, row_bytes] = from's first `real` rows, then zeros.
inline void copy_and_fill(const void* from, void* to, std::int64_t real, std::int64_t rows, std::size_t row_bytes) {
  parallel_for(rows, kStep, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t copied = std::clamp(real, begin, end);
    const auto offset = [&](std::int64_t row) { return static_cast<std::size_t>(row) * row_bytes; };
    std::memcpy(static_cast<std::byte*>(to) + offset(begin), static_cast<const std::byte*>(from) + offset(begin),
                offset(copied - begin));
    std::memset(static_cast<std::byte*>(to) + offset(copied), 0, offset(end - copied));
  });
}

// y[rows, columns] = x[rows, inner] b (+ bias), or + what y holds, for any number of rows.
struct RowParts {
  DType operands = DType::kF32, result = DType::kF32;
  std::int64_t inner = 0, columns = 0;
  bool accumulates = false;
  // Offsets in a kernel's scratch: the library's own, and the last rows, filled up to kStep.
  std::size_t library_at = 0, last_x_at = 0, last_y_at = 0;

  void multiply(const Ladder& products, std::int64_t rows, const void* x, const void* b, const float* bias, void* y,
                std::byte* scratch) const {
    for (const std::int64_t part : {rows / kGroup * kGroup, rows % kGroup / kStep * kStep}) {
      if (part == 0) continue;
      products.over(part).run(x, b, bias, y, scratch + library_at);
      x = at(x, operands, part * inner);
      y = at(y, result, part * columns);
    }
    const std::int64_t last = rows % kStep;
    if (last == 0) return;
    copy_and_fill(x, scratch + last_x_at, last, kStep, bytes_of(operands, inner));
    if (accumulates) copy_and_fill(y, scratch + last_y_at, last, kStep, bytes_of(result, columns));
    products.over(kStep).run(scratch + last_x_at, b, bias, scratch + last_y_at, scratch + library_at);
    std::memcpy(y, scratch + last_y_at, bytes_of(result, last * columns));
  }
};

}  // namespace plimsoll
