#include "support/guarded_buffer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/bytes.h"
#include "tensor/block_code.h"
#include "tensor/half.h"

namespace plimsoll::test {
namespace {

constexpr std::byte kCanary{0xC5};
constexpr std::size_t kCanaryBytes = 64;
constexpr std::int32_t kIntegerPoison = 0x7A7A7A7A;

// A bfloat16's bits as a number of its own.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(double value) : bits(float_to_bfloat16(static_cast<float>(value))) {}
  operator double() const { return double{bfloat16_to_float(bits)}; }
};

// An IEEE half's.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(double value) : bits(float_to_half(static_cast<float>(value))) {}
  operator double() const { return double{half_to_float(bits)}; }
};

template <typename T>
T poisoned() {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(kIntegerPoison);
  return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
}

// body(T{}) for the dtypes that tests use.
template <typename Body>
void for_dtype(DType dtype, Body body) {
  switch (dtype) {
    case DType::kBF16:
      return body(BFloat16{});
    case DType::kF16:
      return body(Float16{});
    case DType::kI16:
      return body(std::int16_t{});
    case DType::kU8:
      return body(std::uint8_t{});
    case DType::kF64:
      return body(double{});
    case DType::kF32:
      return body(float{});
    case DType::kI32:
      return body(std::int32_t{});
    default:
      check(false, "tests hold F64, F32, BF16, F16, I32, I16 and U8");
  }
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes)
    : storage_(bytes + kAlignmentBytes + 2 * kCanaryBytes, kCanary), size_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  start_ = round_up(address + kCanaryBytes, kAlignmentBytes) - address;
}

bool GuardedBuffer::intact() const {
  const auto is_canary = [](std::byte byte) { return byte == kCanary; };
  const auto begin = storage_.begin();
  return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(start_), is_canary) &&
         std::all_of(begin + static_cast<std::ptrdiff_t>(start_ + size_), storage_.end(), is_canary);
}

std::int64_t row_elements(const Shape& shape) {
  std::int64_t count = 1;
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) count *= shape[axis];
  return count;
}

void poison(const TensorView& view, std::int64_t first_row) {
  if (is_coded(view.dtype())) {
    std::memset(view.raw(), 0xFF, first_row == 0 ? view.bytes() : 0);  // factors of NaN
    return;
  }
  for_dtype(view.dtype(), [&]<typename T>(T) {
    const T value = poisoned<T>();
    T* data = view.data<T>();
    std::fill(data + std::min(first_row * row_elements(view.shape()), view.elements()), data + view.elements(), value);
  });
}

std::vector<double> to_doubles(const TensorView& view, std::int64_t rows) {
  std::vector<double> values;
  for_dtype(view.dtype(), [&]<typename T>(T) {
    const T* data = view.data<T>();
    values.assign(data, data + std::min(rows * row_elements(view.shape()), view.elements()));
  });
  return values;
}

void from_doubles(const TensorView& view, std::span<const double> values) {
  if (is_coded(view.dtype())) {
    const auto columns = static_cast<std::size_t>(view.shape()[1]);
    check(values.size() == static_cast<std::size_t>(view.elements()), "a coded matrix is set as a whole");
    auto* to = static_cast<std::byte*>(view.raw());
    for (std::size_t first = 0; first < values.size(); first += columns) {
      const std::vector<float> row(values.begin() + static_cast<std::ptrdiff_t>(first),
                                   values.begin() + static_cast<std::ptrdiff_t>(first + columns));
      encode_row(view.dtype(), row, to);
      to += coded_row_bytes(view.dtype(), view.shape()[1]);
    }
    return;
  }
  check(static_cast<std::int64_t>(values.size()) <= view.elements(), "values fit their tensor");
  for_dtype(view.dtype(), [&]<typename T>(T) {
    std::transform(values.begin(), values.end(), view.data<T>(), [](double value) { return static_cast<T>(value); });
  });
}

}  // namespace plimsoll::test
