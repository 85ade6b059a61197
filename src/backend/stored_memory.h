// StoredMemory: gives access to tensors in an offload store, between steps, as if they were in memory. Their addresses
// are offsets in the store and are never dereferenced.
//
//   StoredMemory memory(store);
//   memory.tensor({DType::kBF16, {4096, 4096}}, offset).write(bytes);
#pragma once

#include "backend/transfers.h"
#include "tensor/device_tensor.h"

namespace plimsoll {

class StoredMemory final : public MemoryAccess {
 public:
  // `store` must outlive this object.
  explicit StoredMemory(OffloadStore& store) : store_(store) {}

  // `offset` is a multiple of kOffloadAlignment, and no other tensor shares the tensor's last block.
  DeviceTensor tensor(const TensorType& type, std::uint64_t offset) const;

  bool is_host() const override { return false; }
  // All throw EnvironmentError if the store fails. A write that does not cover whole blocks reads those first.
  void write(std::span<const std::byte> from, void* to) const override;
  void read(const void* from, std::span<std::byte> to) const override;
  void fill_zeros(std::span<std::byte> bytes) const override;

 private:
  // Passes the bytes [offset, offset + size) to `fill`, piece by piece: the place of a piece among them, and the piece.
  using Fill = std::function<void(std::size_t first, std::span<std::byte> piece)>;
  void change(std::uint64_t offset, std::size_t size, const Fill& fill) const;

  OffloadStore& store_;
};

}  // namespace plimsoll
