#include "model/file_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kChunk = 16384;
constexpr std::int64_t kStrip = 1 << 18;  // for a transposed parameter: 1 MiB, so that reads are not short
constexpr std::int64_t kTile = 16;        // floats of a cache line

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// Writes that many values in the order in which `read` gives them.
void write_in_order(SafetensorsWriter& writer, std::int64_t elements, const ReadValues& read) {
  std::vector<float> buffer(size(std::min(kChunk, elements)));
  for (std::int64_t first = 0; first < elements; first += kChunk) {
    const std::span<float> part = std::span(buffer).first(size(std::min(kChunk, elements - first)));
    read(first, part);
    writer.write_floats(part);
  }
}

// True if the file has the transposed matrix; one that bitsandbytes has quantized is in memory's order.
bool is_transposed(const WeightsFile& weights, const std::string& tensor, const ParameterSpec& spec) {
  return spec.transposed && weights.coding(tensor) == Coding::kNone;
}

// Element (row, column) of memory is (column, row) of the file.
void read_transposed(const WeightsFile& weights, const std::string& tensor, const Shape& shape, std::int64_t first,
                     std::span<float> values, std::span<std::byte> staging) {
  const std::int64_t rows = shape[0], columns = shape[1], count = std::ssize(values);
  const std::int64_t row = first / columns, high = (first + count + columns - 1) / columns - row;
  std::vector<float> tile(size(kTile * high));
  for (std::int64_t column = 0; column < columns; column += kTile) {
    const std::int64_t wide = std::min(kTile, columns - column);
    for (std::int64_t c = 0; c < wide; ++c) {
      weights.read_as_f32(tensor, (column + c) * rows + row, std::span(tile).subspan(size(c * high), size(high)),
                          staging);
    }
    for (std::int64_t r = 0; r < high; ++r) {
      // The first and the last row may be incomplete.
      const std::int64_t at = (row + r) * columns + column - first;
      const std::int64_t begin = std::max<std::int64_t>(0, -at), end = std::min(wide, count - at);
      for (std::int64_t c = begin; c < end; ++c) values[size(at + c)] = tile[size(c * high + r)];
    }
  }
}

void write_transposed(SafetensorsWriter& writer, const Shape& shape, const ReadValues& read) {
  const std::int64_t rows = shape[0], columns = shape[1];
  const std::int64_t most = std::clamp<std::int64_t>(kStrip / rows, 1, columns);
  std::vector<float> row(size(most)), strip(size(most * rows));
  for (std::int64_t column = 0; column < columns; column += most) {
    const std::int64_t wide = std::min(most, columns - column);
    for (std::int64_t r = 0; r < rows; ++r) {
      read(r * columns + column, std::span(row).first(size(wide)));
      for (std::int64_t c = 0; c < wide; ++c) strip[size(c * rows + r)] = row[size(c)];
    }
    writer.write_floats(std::span(strip).first(size(wide * rows)));
  }
}

}  // namespace

std::int64_t values_at_once(const ParameterSpec& spec) { return spec.transposed ? kStrip : kChunk; }

const Shape& shape_in_file(const WeightsFile& weights, const std::string& tensor, const ParameterSpec& spec) {
  return is_transposed(weights, tensor, spec) || !spec.transposed ? spec.file_shape : spec.shape;
}

void read_values(const WeightsFile& weights, const std::string& tensor, const ParameterSpec& spec, std::int64_t first,
                 std::span<float> values, std::span<std::byte> staging) {
  if (is_transposed(weights, tensor, spec)) {
    return read_transposed(weights, tensor, spec.shape, first, values, staging);
  }
  weights.read_as_f32(tensor, first, values, staging);
}

void refuse_non_finite(const WeightsFile& weights, const std::string& tensor, std::int64_t first,
                       std::span<const float> values) {
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw DataError({.what = "a weight is not a finite number",
                   .where = fmt::format("{}, tensor '{}', element {}", weights.path().string(), tensor,
                                        first + (bad - values.begin())),
                   .found = fmt::format("{}", *bad),
                   .allowed = "finite numbers",
                   .remedy = "the file is damaged, or the run that wrote it diverged: take an earlier checkpoint"});
}

void write_values(SafetensorsWriter& writer, const ParameterSpec& spec, const ReadValues& read) {
  if (spec.transposed) return write_transposed(writer, spec.shape, read);
  write_in_order(writer, spec.file_shape.elements(), read);
}

void write_values(SafetensorsWriter& writer, const ParameterSpec& spec, std::span<const float> values) {
  check(std::ssize(values) == spec.shape.elements(), "these are all values of the parameter");
  if (!spec.transposed) return writer.write_floats(values);
  write_transposed(writer, spec.shape, [&](std::int64_t first, std::span<float> part) {
    std::ranges::copy(values.subspan(size(first), part.size()), part.begin());
  });
}

void copy_values(SafetensorsWriter& writer, const WeightsFile& weights, const std::string& tensor,
                 const ParameterSpec& spec, std::span<std::byte> staging) {
  const ReadValues read = [&](std::int64_t first, std::span<float> part) {
    weights.read_as_f32(tensor, first, part, staging);
    refuse_non_finite(weights, tensor, first, part);
  };
  if (spec.transposed && !is_transposed(weights, tensor, spec)) return write_transposed(writer, spec.shape, read);
  write_in_order(writer, spec.file_shape.elements(), read);
}

}  // namespace plimsoll
