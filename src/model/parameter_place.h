// ParameterPlace: where a parameter's values lie in memory, and in which form. Files hold floats; in memory a parameter
// is
//   F32, or
//   split: BF16, which products read, and I16, which brings the float back exactly (tensor/split_float.h); a program
//   that only reads parameters has no need of the second.
//
// With ranks, a place may hold a part of a parameter, from its element `first()` on.
//
//   ParameterPlace(value, low).write(0, floats);  // in any form
//   ParameterPlace(value, low).read(0, floats);   // exactly what was written; of BF16 alone, what it holds
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "tensor/block_code.h"
#include "tensor/device_tensor.h"
#include "tensor/stored_tensor.h"

namespace plimsoll {

class ParameterPlace {
 public:
  ParameterPlace(std::span<float> floats);  // NOLINT: floats are a place as they are
  // `low` is empty unless `value` is BF16. The place begins with element `first` of the whole parameter.
  explicit ParameterPlace(const DeviceTensor& value, const DeviceTensor& low = {}, std::int64_t first = 0);
  // Makes the place of a whole parameter of F32 that other ranks have parts of: `read` gives its values, from an
  // element on.
  using Read = std::function<void(std::int64_t first, std::span<float> values)>;
  ParameterPlace(std::int64_t elements, Read read);

  std::int64_t elements() const { return read_ ? elements_ : value_.elements(); }
  std::int64_t first() const { return first_; }
  // Returns the place in a file, which is never written; empty if the place is in memory.
  const std::optional<StoredTensor>& stored() const { return stored_; }
  void set_stored(std::optional<StoredTensor> stored) { stored_ = std::move(stored); }
  // Returns whether `read` gives what was written, which BF16 alone does not.
  bool is_exact() const { return read_ || value_.dtype() == DType::kF32 || low_.exists(); }
  // Returns all values in place; empty unless they are floats in the host's memory.
  std::span<float> floats() const;
  // Returns the unit of writes, which begin at its multiples, and end there or at the end: a row of a coded parameter,
  // else 1.
  std::int64_t granularity() const;
  // Write and read values from element `first` of the place on. `factor` is for coded rows.
  void write(std::int64_t first, std::span<const float> values, Factor factor = Factor::kOfBlock) const;
  void read(std::int64_t first, std::span<float> values) const;

 private:
  void write_coded(std::int64_t first, std::span<const float> values, Factor factor) const;
  void read_coded(std::int64_t first, std::span<float> values) const;

  DeviceTensor value_, low_;
  std::int64_t first_ = 0, elements_ = 0;
  Read read_{};
  std::optional<StoredTensor> stored_{};
};

}  // namespace plimsoll
