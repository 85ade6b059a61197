// Gives the rows of a gradient that is dense or, for an embedding, stored as its nonzero rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "graph/update_form.h"
#include "tensor/tensor.h"

namespace plimsoll {

class GradientRows {
 public:
  // `inputs` are those of a node of that form; `width` is the elements of a row (for a dense gradient any divisor).
  GradientRows(const UpdateForm& form, std::int64_t width, std::span<const TensorView> inputs)
      : values_(inputs[form.gradient_values()].data<float>()), width_(width) {
    if (!form.by_rows) return;
    ids_ = inputs[form.gradient()].data<std::int32_t>();
    ids_end_ = ids_ + *inputs[form.gradient() + 1].data<std::int32_t>();
  }

  // Returns nullptr if the row is absent, that is, all zeros.
  const float* row(std::int64_t row) const {
    if (ids_ == nullptr) return values_ + row * width_;
    const std::int32_t* const found = lower_bound(row);
    return found != ids_end_ && *found == row ? values_of(found) : nullptr;
  }

  // Returns `count` elements of the table from `first` on, row after row: in place, or gathered in `buffer`, or nullptr
  // if all are zeros.
  const float* elements(std::int64_t first, std::int64_t count, float* buffer) const {
    if (ids_ == nullptr) return values_ + first;
    const std::int64_t last = first + count;
    const std::int32_t* next = lower_bound(first / width_);
    if (next == ids_end_ || *next * width_ >= last) return nullptr;
    if (*next * width_ <= first && (std::int64_t{*next} + 1) * width_ >= last) {
      return values_of(next) + (first - *next * width_);
    }
    std::fill_n(buffer, count, 0.0F);
    for (; next != ids_end_ && *next * width_ < last; ++next) {
      const std::int64_t begin = std::max(first, *next * width_), end = std::min(last, (*next + 1) * width_);
      std::copy_n(values_of(next) + (begin - *next * width_), end - begin, buffer + (begin - first));
    }
    return buffer;
  }

 private:
  const std::int32_t* lower_bound(std::int64_t row) const {
    return std::lower_bound(ids_, ids_end_, static_cast<std::int32_t>(row));
  }
  const float* values_of(const std::int32_t* id) const { return values_ + (id - ids_) * width_; }

  const float* values_;
  std::int64_t width_;
  const std::int32_t *ids_ = nullptr, *ids_end_ = nullptr;
};

}  // namespace plimsoll
