// StoredTensor: a tensor whose elements are contiguous in a file, so that it can be read from there.
//
//   const std::optional<StoredTensor> place = weights.stored("model.layers.0.mlp.up_proj.weight");
#pragma once

#include <cstdint>
#include <filesystem>

#include "tensor/tensor.h"

namespace plimsoll {

struct StoredTensor {
  std::filesystem::path file;
  int descriptor = -1;             // of that file; open as long as the object that returned this
  std::uint64_t offset_bytes = 0;  // of the first element
  DType dtype = DType::kF32;

  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

}  // namespace plimsoll
