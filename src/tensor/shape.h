// Shape: up to five dimensions, row-major, held inline so that views never allocate. Rank 0 is a scalar of one element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace plimsoll {

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims) : rank_(dims.size()) {
    check(rank_ <= kMaxRank, "a shape has at most five dimensions");
    for (std::size_t i = 0; i < rank_; ++i) {
      check(dims[i] >= 0, "a dimension is not negative");
      dims_[i] = dims[i];
    }
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t axis) const { return dims_[axis]; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }
  std::int64_t elements() const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < rank_; ++i) count *= dims_[i];
    return count;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::size_t rank_ = 0;
};

// Formats a shape: "[1418, 768]".
std::string to_string(const Shape& shape);

}  // namespace plimsoll
