// CollectiveParts: what the kernel of an exchange between ranks knows about it, for tensors in the host's memory or in
// a device's: which ranks take part, and where each rank's bytes are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/block_code.h"
#include "tensor/tensor.h"

namespace plimsoll {

// Returns the place of another rank's bytes in a staging buffer, which has one for each rank but `rank`.
constexpr int staging_place(int rank, int other) { return other > rank ? other - 1 : other; }

class CollectiveParts {
 public:
  using Part = CollectiveAttributes::Part;

  explicit CollectiveParts(const Node& node) : attributes_(std::get<CollectiveAttributes>(node.attributes)) {}

 protected:
  const std::vector<Part>& parts() const { return attributes_.parts; }
  std::int64_t ticket() const { return attributes_.ticket; }
  int rank() const { return attributes_.rank; }
  int ranks() const { return attributes_.ranks; }

  // Visits the other ranks, beginning with the one after this rank, so that not all send to the same rank first.
  template <typename Body>
  void for_each_other(const Body& body) const {
    for (int i = 1; i < ranks(); ++i) body((rank() + i) % ranks());
  }
  // Returns the bytes of a part that a rank owns.
  static std::span<std::byte> owned(const TensorView& tensor, const Part& part, int rank) {
    // A coded matrix is cut between rows, because each row has whole blocks.
    const bool coded = is_coded(part.type.dtype);
    const auto unit = coded ? static_cast<std::size_t>(part.type.shape[1]) : std::size_t{1};
    const std::size_t each =
        coded ? coded_row_bytes(part.type.dtype, part.type.shape[1]) : dtype_bytes(part.type.dtype);
    const auto begin = static_cast<std::size_t>(part.bounds[static_cast<std::size_t>(rank)]) / unit * each;
    const auto end = static_cast<std::size_t>(part.bounds[static_cast<std::size_t>(rank) + 1]) / unit * each;
    return tensor.byte_span().subspan(begin, end - begin);
  }
  // Returns the place of a rank's bytes in the staging buffer, which holds the parts one after the other.
  std::size_t staging_place(int other) const {
    return static_cast<std::size_t>(plimsoll::staging_place(rank(), other));
  }
  // Returns one rank's bytes in the staging buffer.
  std::size_t staging_bytes(std::span<const std::byte> staging) const {
    return staging.size() / static_cast<std::size_t>(std::max(1, ranks() - 1));
  }

  // Sums over ranks all elements of the tensors, or only those that this rank owns: calls sum.operator()<T>(mine,
  // first); the other ranks' elements begin `first` bytes after each rank's place in the staging buffer.
  template <typename Sum>
  void sum_parts(std::span<const TensorView> tensors, bool whole, const Sum& sum) const {
    std::size_t first = 0;
    for (std::size_t i = 0; i < parts().size(); ++i) {
      const TensorView& tensor = tensors[i];
      const std::span<std::byte> mine = whole ? tensor.byte_span() : owned(tensor, parts()[i], rank());
      if (tensor.dtype() == DType::kF64) {
        sum.template operator()<double>(mine, first);
      } else {
        check(tensor.dtype() == DType::kF32, "ranks sum F32 or F64");
        sum.template operator()<float>(mine, first);
      }
      first += mine.size();
    }
  }

 private:
  CollectiveAttributes attributes_;
};

}  // namespace plimsoll
