#include "model/parameter_place.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tensor/split_float.h"

namespace plimsoll {

namespace {

constexpr std::size_t kPiece = 4096;        // values that are converted at a time
constexpr std::size_t kCodedPiece = 16384;  // bytes of coded rows that are written at a time

std::size_t offset_of(std::size_t element, DType dtype) { return element * dtype_bytes(dtype); }

}  // namespace

ParameterPlace::ParameterPlace(std::span<float> floats)
    : value_(TensorView({DType::kF32, {static_cast<std::int64_t>(floats.size())}}, floats.data())) {}

ParameterPlace::ParameterPlace(std::int64_t elements, Read read) : elements_(elements), read_(std::move(read)) {}

ParameterPlace::ParameterPlace(const DeviceTensor& value, const DeviceTensor& low, std::int64_t first)
    : value_(value), low_(low), first_(first) {
  check(value.dtype() == DType::kF32 || value.dtype() == DType::kBF16 || is_coded(value.dtype()),
        "a parameter is F32, BF16 or coded");
  check(!low.exists() ||
            (value.dtype() == DType::kBF16 && low.dtype() == DType::kI16 && low.elements() == value.elements()),
        "a split parameter's second half is I16 of the same size");
}

std::span<float> ParameterPlace::floats() const {
  if (read_ || stored_ || value_.dtype() != DType::kF32 || value_.host_bytes().empty()) return {};
  return value_.view().span<float>();
}

std::int64_t ParameterPlace::granularity() const { return !read_ && is_coded(value_.dtype()) ? value_.shape()[1] : 1; }

void ParameterPlace::write(std::int64_t first, std::span<const float> values, Factor factor) const {
  check(!read_, "a parameter that others have parts of is written by each of them");
  check(!stored_, "a parameter that is read in its file is not written");
  if (is_coded(value_.dtype())) return write_coded(first, values, factor);
  auto at = static_cast<std::size_t>(first);
  if (value_.dtype() == DType::kF32) return value_.write(std::as_bytes(values), offset_of(at, DType::kF32));
  std::array<std::uint16_t, kPiece> high;
  std::array<std::int16_t, kPiece> low;
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kPiece);
    for (std::size_t i = 0; i < count; ++i) {
      const SplitFloat halves = split_float(values[i]);
      high[i] = halves.high;
      low[i] = halves.low;
    }
    value_.write(std::as_bytes(std::span(high).first(count)), offset_of(at, DType::kBF16));
    if (low_.exists()) low_.write(std::as_bytes(std::span(low).first(count)), offset_of(at, DType::kI16));
    at += count;
    values = values.subspan(count);
  }
}

void ParameterPlace::read(std::int64_t first, std::span<float> values) const {
  if (read_) return read_(first, values);
  if (is_coded(value_.dtype())) return read_coded(first, values);
  auto at = static_cast<std::size_t>(first);
  if (value_.dtype() == DType::kF32) {
    return value_.read(std::as_writable_bytes(values), offset_of(at, DType::kF32));
  }
  std::array<std::uint16_t, kPiece> high;
  std::array<std::int16_t, kPiece> low{};
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kPiece);
    value_.read(std::as_writable_bytes(std::span(high).first(count)), offset_of(at, DType::kBF16));
    if (low_.exists()) low_.read(std::as_writable_bytes(std::span(low).first(count)), offset_of(at, DType::kI16));
    for (std::size_t i = 0; i < count; ++i) values[i] = join_float({high[i], low[i]});
    at += count;
    values = values.subspan(count);
  }
}

void ParameterPlace::write_coded(std::int64_t first, std::span<const float> values, Factor factor) const {
  const auto columns = static_cast<std::size_t>(granularity());
  check(static_cast<std::size_t>(first) % columns == 0 && values.size() % columns == 0,
        "coded parameters are written by whole rows");
  const std::size_t row_bytes = coded_row_bytes(value_.dtype(), granularity());
  const std::size_t most = std::max<std::size_t>(1, kCodedPiece / row_bytes);  // rows that are written at a time
  std::vector<std::byte> rows(std::min(most, values.size() / columns) * row_bytes);
  std::size_t at = static_cast<std::size_t>(first) / columns * row_bytes, filled = 0;
  while (!values.empty()) {
    encode_row(value_.dtype(), values.first(columns), rows.data() + filled, factor);
    values = values.subspan(columns);
    filled += row_bytes;
    if (filled < rows.size() && !values.empty()) continue;
    value_.write(std::span(rows).first(filled), at);
    at += std::exchange(filled, 0);
  }
}

void ParameterPlace::read_coded(std::int64_t first, std::span<float> values) const {
  std::vector<std::byte> row(coded_row_bytes(value_.dtype(), granularity()));
  while (!values.empty()) {
    const std::int64_t column = first % granularity();
    const std::span<float> part =
        values.first(std::min(values.size(), static_cast<std::size_t>(granularity() - column)));
    value_.read(row, static_cast<std::size_t>(first / granularity()) * row.size());
    decode_row(value_.dtype(), row.data(), column, part);
    values = values.subspan(part.size());
    first += static_cast<std::int64_t>(part.size());
  }
}

}  // namespace plimsoll
