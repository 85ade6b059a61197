// Element types. Names are those of safetensors headers, except the two that no file holds: Q8 and NF4, matrices whose
// rows are coded in blocks (tensor/block_code.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kI16, kI8, kU8, kBool, kQ8, kNF4 };

constexpr std::size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    case DType::kQ8:
    case DType::kNF4:
      return 0;  // elements have no whole bytes
    default:
      return 1;
  }
}

// Returns the size of this many elements of a type whose elements have whole bytes.
constexpr std::size_t bytes_of(DType dtype, std::int64_t elements) {
  return dtype_bytes(dtype) * static_cast<std::size_t>(elements);
}

// Returns "F32", "BF16", "I64", …, as safetensors spells them.
constexpr std::string_view dtype_name(DType dtype) {
  constexpr std::string_view kNames[] = {"F64", "F32", "BF16", "F16",  "I64", "I32",
                                         "I16", "I8",  "U8",   "BOOL", "Q8",  "NF4"};
  return kNames[static_cast<std::size_t>(dtype)];
}

constexpr bool is_floating(DType dtype) { return dtype <= DType::kF16; }
// Q8 or NF4, the types of frozen weights; only products and look-ups read them.
constexpr bool is_coded(DType dtype) { return dtype == DType::kQ8 || dtype == DType::kNF4; }
// BF16 or F16: types in which values are stored while their sums are kept in F32.
constexpr bool is_half(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
// The type of sums of such values, of statistics and of gradients of parameters: F32 for a half, else the same type.
constexpr DType wide(DType dtype) { return is_half(dtype) ? DType::kF32 : dtype; }

}  // namespace plimsoll
