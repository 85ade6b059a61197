// Simple accessors for the parts of a parameter update (graph/update_form.h): parameters whole or split, states whole
// or coded, gradients dense or by rows.
#pragma once

#include <cmath>

#include "backend/reference/loop_kernel.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"
#include "tensor/split_float.h"

namespace plimsoll::reference {

// Accesses element i of the parameter, joined and split if it is kept in two halves.
template <typename T>
class ParameterParts {
 public:
  ParameterParts(const UpdateForm& form, std::span<const TensorView> outputs) : elements_(outputs[0].elements()) {
    if (form.split()) {
      high_ = outputs[0].data<std::uint16_t>();
      low_ = outputs[1].data<std::int16_t>();
    } else {
      whole_ = outputs[0].data<T>();
    }
  }
  std::int64_t elements() const { return elements_; }
  T get(std::int64_t i) const { return whole_ != nullptr ? whole_[i] : T{join_float({high_[i], low_[i]})}; }
  void set(std::int64_t i, T value) const {
    if (whole_ != nullptr) {
      whole_[i] = value;
      return;
    }
    const SplitFloat halves = split_float(static_cast<float>(value));
    high_[i] = halves.high;
    low_[i] = halves.low;
  }

 private:
  std::int64_t elements_;
  T* whole_ = nullptr;
  std::uint16_t* high_ = nullptr;
  std::int16_t* low_ = nullptr;
};

// Accesses a moment, one block of kStateBlock elements at a time.
template <typename T>
class MomentParts {
 public:
  // `parts` begins with the moment's parts.
  MomentParts(bool coded, const CodeMap& map, std::span<const TensorView> parts) : map_(map) {
    if (coded) {
      codes_ = parts[0].data<std::uint8_t>();
      absmax_ = parts[1].data<T>();
    } else {
      whole_ = parts[0].data<T>();
    }
  }
  void load(std::int64_t first, std::int64_t count, T* to) const {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = whole_ != nullptr ? whole_[first + i] : T{map_[codes_[first + i]]} * absmax_[first / kStateBlock];
    }
  }
  void store(std::int64_t first, std::int64_t count, const T* from) const {
    if (whole_ != nullptr) {
      std::copy(from, from + count, whole_ + first);
      return;
    }
    T largest = 0;
    for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(from[i]));
    absmax_[first / kStateBlock] = largest;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>(largest > 0 ? from[i] / largest : T{0});
      codes_[first + i] = &map_ == &kUnsignedCodes ? square_code(x) : nearest_code(map_, x);
    }
  }

 private:
  const CodeMap& map_;
  T* whole_ = nullptr;
  std::uint8_t* codes_ = nullptr;
  T* absmax_ = nullptr;
};

// Returns the gradient of row `row`, in a matrix of rows one after the other; nullptr for an absent row: zeros.
template <typename T>
class GradientRows {
 public:
  // `gradient` begins with the gradient's parts; `width` is the number of elements of a row.
  GradientRows(bool by_rows, std::int64_t width, std::int64_t table_rows, std::span<const TensorView> gradient)
      : width_(width) {
    if (!by_rows) {
      values_ = gradient[0].data<T>();
      return;
    }
    ids_ = gradient[0].data<std::int32_t>();
    count_ = *gradient[1].data<std::int32_t>();
    values_ = gradient[2].data<T>();
    for (std::int64_t i = 0; i < count_; ++i) {
      check(ids_[i] < table_rows && (i == 0 ? ids_[i] >= 0 : ids_[i] > ids_[i - 1]),
            "the ids of a row gradient ascend and are rows of the table");
    }
  }
  const T* row(std::int64_t row) const {
    if (ids_ == nullptr) return values_ + row * width_;
    const std::int32_t* found = std::lower_bound(ids_, ids_ + count_, row);
    return found != ids_ + count_ && *found == row ? values_ + (found - ids_) * width_ : nullptr;
  }
  T at(std::int64_t element) const {
    const T* values = row(element / width_);
    return values == nullptr ? T{0} : values[element % width_];
  }

 private:
  std::int64_t width_;
  const T* values_ = nullptr;
  const std::int32_t* ids_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace plimsoll::reference
