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
  // `low` is empty unless `value` is BF16. `first`: the element of the whole parameter with which the place begins.
  explicit ParameterPlace(const DeviceTensor& value, const DeviceTensor& low = {}, std::int64_t first = 0);
  // A whole parameter of F32 that other ranks have parts of: `read` gives its values, from an element on.
  using Read = std::function<void(std::int64_t first, std::span<float> values)>;
  ParameterPlace(std::int64_t elements, Read read);

  std::int64_t elements() const { return read_ ? elements_ : value_.elements(); }
  std::int64_t first() const { return first_; }
  // Says where a place in a file is, which nobody writes; empty if the place is in memory.
  const std::optional<StoredTensor>& stored() const { return stored_; }
  void set_stored(std::optional<StoredTensor> stored) { stored_ = std::move(stored); }
  // Whether `read` gives what was written: not of BF16 alone.
  bool is_exact() const { return read_ || value_.dtype() == DType::kF32 || low_.exists(); }
  // All values where they lie; empty unless they are floats in the host's memory.
  std::span<float> floats() const;
  // Writes begin at multiples of it and end there or at the end: a row of a coded parameter, else 1.
  std::int64_t granularity() const;
  // Values from element `first` of the place on. `factor`: of coded rows.
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
