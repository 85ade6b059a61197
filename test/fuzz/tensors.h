// Reads the tensors that a file declares.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "formats/tensor_source.h"

namespace plimsoll::fuzz {

// Reads the beginning and the end of every tensor. It reads no more, because a view of stride 0 may claim to be far
// larger than its file, and real readers require the model's shape.
inline void read_tensors(const TensorSource& source) {
  constexpr std::size_t kPieceBytes = 4096, kTensors = 64;
  std::vector<std::byte> bytes(kPieceBytes);
  std::size_t read = 0;
  for (const TensorEntry& entry : source.entries()) {
    check(source.find(entry.name) == &entry, "a tensor is found by its name");
    if (++read > kTensors) continue;
    const std::size_t width = dtype_bytes(entry.type.dtype);
    const auto elements = static_cast<std::uint64_t>(entry.type.shape.elements());
    const std::uint64_t count = std::min<std::uint64_t>(kPieceBytes / width, elements);
    const std::span<std::byte> piece = std::span(bytes).first(count * width);
    source.read_elements(entry, 0, piece);
    source.read_elements(entry, elements - count, piece);
  }
}

}  // namespace plimsoll::fuzz
