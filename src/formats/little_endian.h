// Reads numbers as every format here stores them: little endian, at any alignment.
//
//   const auto length = load_little_endian<std::uint64_t>(header);   // header: at least 8 bytes
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/error.h"

namespace plimsoll {

static_assert(std::endian::native == std::endian::little, "tensors are stored little endian");

// Reads a T at `offset`; the caller must have checked that the bytes exist.
template <typename T>
T load_little_endian(std::span<const std::byte> bytes, std::size_t offset = 0) {
  check(offset <= bytes.size() && sizeof(T) <= bytes.size() - offset, "a number lies in its buffer");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace plimsoll
