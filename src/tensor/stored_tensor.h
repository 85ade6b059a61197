// StoredTensor: a tensor that lies in a file, its elements one after the other, so that it can be read there.
//
//   const std::optional<StoredTensor> place = weights.stored("model.layers.0.mlp.up_proj.weight");
#pragma once

#include <cstdint>
#include <filesystem>

#include "tensor/tensor.h"

namespace plimsoll {

struct StoredTensor {
  std::filesystem::path file;
  int descriptor = -1;             // of that file, open as long as what has said this is
  std::uint64_t offset_bytes = 0;  // of the first element
  DType dtype = DType::kF32;

  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

}  // namespace plimsoll
