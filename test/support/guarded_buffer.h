// GuardedBuffer: aligned memory of a backend between two canaries. Also fills tensors with values that no test takes
// for a result: NaN for floating types, a large number, far from any index, for integers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace plimsoll::test {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // Exactly `bytes` in the room_for(bytes) of `memory` from `offset` on, which is a multiple of kAlignmentBytes; the
  // canary begins right after the last byte. `memory` must outlive the buffer.
  GuardedBuffer(const DeviceMemory& memory, std::size_t offset, std::size_t bytes);
  static std::size_t room_for(std::size_t bytes);

  // Addresses for kernels; `memory` copies from and to them.
  std::span<std::byte> bytes() const { return storage_.subspan(kFront, size_); }
  const MemoryAccess& memory() const { return *memory_; }
  void fill(std::byte value) const;
  bool intact() const;

 private:
  static constexpr std::size_t kFront = 64;  // a canary, and a multiple of the alignment

  const DeviceMemory* memory_ = nullptr;
  std::span<std::byte> storage_;
  std::size_t size_ = 0;
};

// Overwrites the elements of `view` from its row `first_row` on with the poison of its dtype.
void poison(const TensorView& view, std::int64_t first_row = 0);
void poison(const DeviceTensor& tensor, std::int64_t first_row = 0);

// The number of elements in one row: all but the first dimension (a scalar is one row).
std::int64_t row_elements(const Shape& shape);

// Convert the first `rows` rows to doubles, and back. F64, F32 and I32.
std::vector<double> to_doubles(const TensorView& view, std::int64_t rows);
std::vector<double> to_doubles(const DeviceTensor& tensor, std::int64_t rows);
void from_doubles(const TensorView& view, std::span<const double> values);
void from_doubles(const DeviceTensor& tensor, std::span<const double> values);

}  // namespace plimsoll::test
