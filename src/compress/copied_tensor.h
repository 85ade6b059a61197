// Copies a tensor from one file of weights to another as it is there: its type and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/safetensors.h"
#include "formats/weights.h"

namespace plimsoll {

class TensorCopier {
 public:
  TensorCopier(const WeightsFile& weights, SafetensorsWriter& writer) : weights_(weights), writer_(writer) {}

  // Throws DataError naming the first number of `entry`, one of the file's, that is NaN or infinite.
  void check_numbers(const TensorEntry& entry);
  void copy(const TensorEntry& entry) { copy(entry, 0, entry.type.shape.elements()); }
  // Copies the elements from `first` up to `end`, in row-major order.
  void copy(const TensorEntry& entry, std::int64_t first, std::int64_t end);

 private:
  const WeightsFile& weights_;
  SafetensorsWriter& writer_;
  std::vector<std::byte> buffer_, staging_;
  std::vector<float> values_;
};

}  // namespace plimsoll
