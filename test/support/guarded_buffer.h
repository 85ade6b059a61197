// GuardedBuffer: aligned memory between two canaries, filled with values that no test takes for a result: NaN for
// floating types, a large number, far from any index, for integers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace plimsoll::test {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // `bytes` exactly; the canary begins right behind the last of them.
  explicit GuardedBuffer(std::size_t bytes);

  std::span<std::byte> bytes() { return {storage_.data() + start_, size_}; }
  bool intact() const;

 private:
  std::vector<std::byte> storage_;
  std::size_t start_ = 0, size_ = 0;
};

// Overwrites the elements of `view` from its row `first_row` on with the poison of its dtype.
void poison(const TensorView& view, std::int64_t first_row = 0);

// Elements in one row: all but the first dimension (a scalar is one row).
std::int64_t row_elements(const Shape& shape);

// The first `rows` rows as doubles, and back. F64, F32 and I32.
std::vector<double> to_doubles(const TensorView& view, std::int64_t rows);
void from_doubles(const TensorView& view, std::span<const double> values);

}  // namespace plimsoll::test
