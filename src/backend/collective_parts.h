// Where the bytes of an exchange between ranks lie: the same for kernels of the host's memory and of a device's.
#pragma once

#include <cstddef>

#include "graph/op.h"
#include "tensor/block_code.h"

namespace plimsoll {

struct ByteRange {
  std::size_t first = 0, count = 0;
};

// The bytes of a part that a rank owns.
inline ByteRange owned_bytes(const CollectiveAttributes::Part& part, int rank) {
  // A coded matrix is divided between its rows, which have whole blocks.
  const bool coded = is_coded(part.type.dtype);
  const auto unit = coded ? static_cast<std::size_t>(part.type.shape[1]) : std::size_t{1};
  const std::size_t each = coded ? coded_row_bytes(part.type.dtype, part.type.shape[1]) : dtype_bytes(part.type.dtype);
  const auto begin = static_cast<std::size_t>(part.bounds[static_cast<std::size_t>(rank)]) / unit * each;
  const auto end = static_cast<std::size_t>(part.bounds[static_cast<std::size_t>(rank) + 1]) / unit * each;
  return {.first = begin, .count = end - begin};
}

// The place of another rank's bytes in a staging buffer, which has one for each rank but `rank`.
constexpr int staging_place(int rank, int other) { return other > rank ? other - 1 : other; }

}  // namespace plimsoll
