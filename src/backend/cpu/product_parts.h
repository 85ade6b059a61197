// Helpers that kernels which multiply rows share: they run a product over a row count that is known only at run time,
// by a general product if that is faster (MatmulCache::general), otherwise divided among primitives of fixed shapes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

namespace plimsoll {

inline constexpr std::int64_t kStep = 16;
inline constexpr std::int64_t kGroup = 128;
inline constexpr std::int64_t kChunk =
    2 * kGroup;  // rows that are widened, or multiplied by a narrow matrix, at a time
static_assert(kGroup % kStep == 0 && kChunk % kGroup == 0);

// Products of fixed row counts that together cover any number of rows: over whole large groups, then over whole groups
// of kGroup, then of kStep. A product that oneDNN has prepared takes some 100 KB, so large groups grow with the
// capacity in rows.
class Ladder {
 public:
  explicit Ladder(std::int64_t capacity)
      : group_(std::max(kGroup, (capacity / kLargeGroups + kGroup - 1) / kGroup * kGroup)) {}

  std::int64_t group() const { return group_; }  // rows of a large group

  // Calls make(rows) for each product that is needed to run over `fewest` to `most` rows.
  template <typename Make>
  void fill(std::int64_t fewest, std::int64_t most, const Make& make) {
    const auto add = [&](std::int64_t rows) {
      if (!products_.contains(rows)) products_[rows] = make(rows);
    };
    for (std::int64_t rows = kStep; rows <= std::min(kGroup, most + kStep - 1); rows += kStep) add(rows);
    for (std::int64_t rows = kGroup; rows < group_ && rows <= most; rows += kGroup) add(rows);
    for (std::int64_t rows = std::max(fewest / group_, std::int64_t{1}) * group_; rows <= most; rows += group_)
      add(rows);
  }

  // Returns how many of `rows`, which is at least kStep, one product takes.
  std::int64_t part(std::int64_t rows) const {
    const std::int64_t unit = rows >= group_ ? group_ : rows >= kGroup ? kGroup : kStep;
    return rows / unit * unit;
  }
  const Matmul& over(std::int64_t rows) const { return *products_.at(rows); }

 private:
  static constexpr std::int64_t kLargeGroups = 16;  // at most, roughly
  std::int64_t group_;
  std::map<std::int64_t, std::shared_ptr<const Matmul>> products_{};
};

// Returns the address of element `index`.
inline const std::byte* at(const void* data, DType dtype, std::int64_t index) {
  return static_cast<const std::byte*>(data) + bytes_of(dtype, index);
}
inline std::byte* at(void* data, DType dtype, std::int64_t index) {
  return static_cast<std::byte*>(data) + bytes_of(dtype, index);
}

// A matrix this narrow gains nothing from products over many rows at once.
inline bool is_narrow(std::int64_t inner, std::int64_t columns) { return std::min(inner, columns) < 64; }

// Returns the type in which rows of `dtype` are multiplied.
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

// y[rows, columns] = x[rows, inner] b (+ bias), or plus y's old value, for any number of rows.
struct RowParts {
  MatmulShape shape{};                      // its rows are not used
  const GeneralProduct* general = nullptr;  // runs over any rows, so that no ladder and no last rows are used
  // Offsets in a kernel's scratch: the product's own scratch, and the last rows, padded to kStep.
  std::size_t library_at = 0, last_x_at = 0, last_y_at = 0;

  // Reserves the scratch that multiply() needs.
  void lay_out(ScratchLayout& layout, std::size_t library_bytes) {
    library_at = layout.add_bytes(general != nullptr ? general->scratch_bytes() : library_bytes);
    if (general != nullptr) return;
    last_x_at = layout.add_bytes(bytes_of(shape.operands, kStep * shape.inner));
    last_y_at = layout.add_bytes(bytes_of(shape.result, kStep * shape.columns));
  }

  void multiply(const Ladder& products, std::int64_t rows, const void* x, const void* b, const float* bias, void* y,
                std::byte* scratch) const {
    if (general != nullptr) {
      MatmulShape whole = shape;
      whole.rows = rows;
      general->run(whole, x, b, bias, y, scratch + library_at);
      return;
    }
    while (rows >= kStep) {
      const std::int64_t part = products.part(rows);
      products.over(part).run(x, b, bias, y, scratch + library_at);
      x = at(x, shape.operands, part * shape.inner);
      y = at(y, shape.result, part * shape.columns);
      rows -= part;
    }
    if (rows == 0) return;
    copy_and_fill(x, scratch + last_x_at, rows, kStep, bytes_of(shape.operands, shape.inner));
    if (shape.accumulate) copy_and_fill(y, scratch + last_y_at, rows, kStep, bytes_of(shape.result, shape.columns));
    products.over(kStep).run(scratch + last_x_at, b, bias, scratch + last_y_at, scratch + library_at);
    std::memcpy(y, scratch + last_y_at, bytes_of(shape.result, rows * shape.columns));
  }
};

}  // namespace plimsoll
