// What the kernels that update parameters share (graph/update_form.h): parameters whole or split, gradients dense or by
// rows.
//
// The halves of a split parameter and the codes of a moment are those of the reference to the bit, which a float with
// another rounding would sometimes miss: so products and sums are not fused (cmake/PlimsollTargets.cmake).
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/packs.h"
#include "graph/update_form.h"
#include "tensor/split_float.h"

namespace plimsoll::cuda {

// True if the update must be skipped, because its factor of gradients is NaN.
__device__ inline bool is_skipped(const float* clip) { return *clip != *clip; }

// A parameter, whole or (whole = nullptr) split.
struct Parameter {
  float* whole;
  std::uint16_t* high;
  std::int16_t* low;

  // Makes that element the first one.
  void advance(std::int64_t elements) {
    whole = whole == nullptr ? nullptr : whole + elements;
    high = high == nullptr ? nullptr : high + elements;
    low = low == nullptr ? nullptr : low + elements;
  }

  // Loads `count` of N elements from `at` on.
  template <int N>
  __device__ void load_from(std::int64_t at, int count, float (&to)[N]) const {
    if (whole != nullptr) return load(whole + at, count, to);
    const auto upper = read_pack<N>(high + at, count);
    const auto lower = read_pack<N>(low + at, count);
    for (int i = 0; i < N; ++i) to[i] = join_float({upper.at[i], lower.at[i]});
  }
  template <int N>
  __device__ void store_to(std::int64_t at, int count, const float (&from)[N]) const {
    if (whole != nullptr) return store(from, count, whole + at);
    Pack<std::uint16_t, N> upper;
    Pack<std::int16_t, N> lower;
    for (int i = 0; i < N; ++i) {
      const SplitFloat halves = split_float(from[i]);
      upper.at[i] = halves.high;
      lower.at[i] = halves.low;
    }
    write_pack(upper, count, high + at);
    write_pack(lower, count, low + at);
  }
};

inline Parameter parameter_of(const UpdateForm& form, const KernelArguments& a) {
  if (!form.split()) return {output<float>(a, 0), nullptr, nullptr};
  return {nullptr, output<std::uint16_t>(a, 0), output<std::int16_t>(a, 1)};
}

// The rows of a gradient: all of the table's, or (ids) those that are not zero.
struct Gradient {
  const float* values;
  const std::int32_t *ids, *count;  // nullptr: dense
  std::int64_t table_rows, width;

  __device__ std::int64_t rows() const { return ids == nullptr ? table_rows : *count; }
  __device__ std::int64_t table_row(std::int64_t row) const { return ids == nullptr ? row : ids[row]; }
  // Returns the first row whose id is not below that of the table's.
  __device__ std::int64_t find(std::int64_t table_row) const {
    if (ids == nullptr) return table_row;
    std::int64_t low = 0, high = *count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (ids[middle] < table_row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // True if the row that was found is the table's; if not, the gradient lacks that row, which means zeros.
  __device__ bool has(std::int64_t row, std::int64_t table_row) const {
    return ids == nullptr || (row < *count && ids[row] == table_row);
  }
};

inline Gradient gradient_of(const UpdateForm& form, const KernelArguments& a, std::int64_t width) {
  const std::int64_t rows = width == 0 ? 0 : a.outputs[0].elements() / width;
  Gradient gradient{input<float>(a, form.gradient_values()), nullptr, nullptr, rows, width};
  if (form.by_rows) {
    gradient.ids = input<std::int32_t>(a, form.gradient());
    gradient.count = input<std::int32_t>(a, form.gradient() + 1);
  }
  return gradient;
}

struct UpdateScalars {
  const float* learning_rate;
  const std::int32_t* step;
  const float* clip;
};
inline UpdateScalars scalars_of(const UpdateForm& form, const KernelArguments& a) {
  return {input<float>(a, form.scalars()), input<std::int32_t>(a, form.scalars() + 1),
          input<float>(a, form.scalars() + 2)};
}

}  // namespace plimsoll::cuda
