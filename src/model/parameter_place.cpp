#include "model/parameter_place.h"

#include <algorithm>

#include "tensor/block_code.h"
#include "tensor/split_float.h"

namespace plimsoll {

ParameterPlace::ParameterPlace(std::span<float> floats)
    : value_({DType::kF32, {static_cast<std::int64_t>(floats.size())}}, floats.data()) {}

ParameterPlace::ParameterPlace(const TensorView& value, const TensorView& low) : value_(value), low_(low) {
  check(value.dtype() == DType::kF32 || value.dtype() == DType::kBF16 || is_coded(value.dtype()),
        "a parameter is F32, BF16 or coded");
  check(low.raw() == nullptr ||
            (value.dtype() == DType::kBF16 && low.dtype() == DType::kI16 && low.elements() == value.elements()),
        "a split parameter's second half is I16 of the same size");
}

std::span<float> ParameterPlace::floats() const {
  return value_.dtype() == DType::kF32 ? value_.span<float>() : std::span<float>();
}

std::int64_t ParameterPlace::granularity() const { return is_coded(value_.dtype()) ? value_.shape()[1] : 1; }

void ParameterPlace::write(std::int64_t first, std::span<const float> values) const {
  const auto at = static_cast<std::size_t>(first);
  if (is_coded(value_.dtype())) {
    const auto columns = static_cast<std::size_t>(granularity());
    check(at % columns == 0 && values.size() % columns == 0, "coded parameters are written by whole rows");
    std::byte* row = coded_row(first / granularity());
    for (; !values.empty(); values = values.subspan(columns)) {
      encode_row(value_.dtype(), values.first(columns), row);
      row += coded_row_bytes(value_.dtype(), granularity());
    }
    return;
  }
  if (value_.dtype() == DType::kF32) {
    std::copy(values.begin(), values.end(), value_.span<float>().subspan(at, values.size()).begin());
    return;
  }
  const auto high = value_.span<std::uint16_t>().subspan(at, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SplitFloat halves = split_float(values[i]);
    high[i] = halves.high;
    if (low_.raw() != nullptr) low_.data<std::int16_t>()[at + i] = halves.low;
  }
}

void ParameterPlace::read(std::int64_t first, std::span<float> values) const {
  const auto at = static_cast<std::size_t>(first);
  if (is_coded(value_.dtype())) {
    while (!values.empty()) {
      const std::int64_t column = first % granularity();
      const std::span<float> part =
          values.first(std::min(values.size(), static_cast<std::size_t>(granularity() - column)));
      decode_row(value_.dtype(), coded_row(first / granularity()), column, part);
      values = values.subspan(part.size());
      first += static_cast<std::int64_t>(part.size());
    }
    return;
  }
  if (value_.dtype() == DType::kF32) {
    const auto from = value_.span<float>().subspan(at, values.size());
    std::copy(from.begin(), from.end(), values.begin());
    return;
  }
  const auto high = value_.span<std::uint16_t>().subspan(at, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int16_t low = low_.raw() != nullptr ? low_.data<std::int16_t>()[at + i] : std::int16_t{0};
    values[i] = join_float({high[i], low});
  }
}

std::byte* ParameterPlace::coded_row(std::int64_t row) const {
  return static_cast<std::byte*>(value_.raw()) +
         static_cast<std::size_t>(row) * coded_row_bytes(value_.dtype(), granularity());
}

}  // namespace plimsoll
