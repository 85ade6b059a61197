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

// The bits of a bfloat16 as a type of its own.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(double value) : bits(float_to_bfloat16(static_cast<float>(value))) {}
  operator double() const { return double{bfloat16_to_float(bits)}; }
};

// The bits of an IEEE half as a type of its own.
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

// Calls body(T{}) for the dtypes that tests use.
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

// Writes in pieces, because the memory may be large.
void write_byte(const MemoryAccess& memory, std::span<std::byte> to, std::byte value) {
  if (memory.is_host()) {
    std::ranges::fill(to, value);
    return;
  }
  const std::vector<std::byte> piece(std::min<std::size_t>(to.size(), 64 * kKiB), value);
  for (std::size_t first = 0; first < to.size(); first += piece.size()) {
    memory.write(std::span(piece).first(std::min(piece.size(), to.size() - first)), to.data() + first);
  }
}

// Calls body(view) with the tensor's bytes where the host can change them: in place, or in a copy that is written back.
template <typename Body>
void change(const DeviceTensor& tensor, const Body& body) {
  if (!tensor.host_bytes().empty() || tensor.bytes() == 0) return body(tensor.view());
  std::vector<std::byte> bytes(tensor.bytes());
  tensor.read(bytes);
  body(TensorView(tensor.type(), bytes.data()));
  tensor.write(bytes);
}

}  // namespace

std::size_t GuardedBuffer::room_for(std::size_t bytes) {
  static_assert(kFront % kAlignmentBytes == 0);
  return round_up(kFront + bytes + kCanaryBytes, kAlignmentBytes);
}

GuardedBuffer::GuardedBuffer(const DeviceMemory& memory, std::size_t offset, std::size_t bytes)
    : memory_(&memory), storage_(memory.bytes().subspan(offset, room_for(bytes))), size_(bytes) {
  write_byte(memory, storage_, kCanary);
}

void GuardedBuffer::fill(std::byte value) const { write_byte(*memory_, bytes(), value); }

bool GuardedBuffer::intact() const {
  const auto is_intact = [this](std::span<const std::byte> guard) {
    std::vector<std::byte> found(guard.size());
    memory_->read(guard.data(), found);
    return std::ranges::all_of(found, [](std::byte byte) { return byte == kCanary; });
  };
  return memory_ == nullptr || (is_intact(storage_.first(kFront)) && is_intact(storage_.subspan(kFront + size_)));
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

void poison(const DeviceTensor& tensor, std::int64_t first_row) {
  change(tensor, [&](const TensorView& view) { poison(view, first_row); });
}

std::vector<double> to_doubles(const TensorView& view, std::int64_t rows) {
  std::vector<double> values;
  for_dtype(view.dtype(), [&]<typename T>(T) {
    const T* data = view.data<T>();
    values.assign(data, data + std::min(rows * row_elements(view.shape()), view.elements()));
  });
  return values;
}

std::vector<double> to_doubles(const DeviceTensor& tensor, std::int64_t rows) {
  return to_doubles(HostCopy(tensor).view(), rows);
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

void from_doubles(const DeviceTensor& tensor, std::span<const double> values) {
  change(tensor, [&](const TensorView& view) { from_doubles(view, values); });
}

}  // namespace plimsoll::test
