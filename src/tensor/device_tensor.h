// DeviceTensor: a tensor in memory that the host may only be able to access by copies.
//
// Only a backend's kernels may use the addresses of its tensors. All other code accesses values through this class, on
// the CPU too, so that no code depends on where a run's arena lies.
//
//   tensor.write(std::as_bytes(std::span(ids)));
//   const float loss = program.tensor(planned.loss).get<float>();
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace plimsoll {

// Access to one memory, the host's own unless overridden. Copies are ordered after all earlier work of its backend and
// before all later work. A read is complete when it returns; the source of a write may be reused at once.
class MemoryAccess {
 public:
  MemoryAccess() = default;
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
  virtual ~MemoryAccess() = default;

  // True if the host may use its addresses.
  virtual bool is_host() const { return true; }
  virtual void write(std::span<const std::byte> from, void* to) const;
  virtual void read(const void* from, std::span<std::byte> to) const;
  virtual void fill_zeros(std::span<std::byte> bytes) const;
};

// Returns the host's own memory.
const MemoryAccess& host_memory();

class DeviceTensor {
 public:
  DeviceTensor() = default;
  // `memory` must outlive the tensor.
  DeviceTensor(const TensorView& view, const MemoryAccess& memory) : view_(view), memory_(&memory) {}
  // Makes a tensor in the host's memory.
  explicit DeviceTensor(const TensorView& view) : DeviceTensor(view, host_memory()) {}

  bool exists() const { return view_.raw() != nullptr; }
  const TensorType& type() const { return view_.type(); }
  const Shape& shape() const { return view_.shape(); }
  DType dtype() const { return view_.dtype(); }
  std::int64_t elements() const { return view_.elements(); }
  std::size_t bytes() const { return view_.bytes(); }
  // The view that kernels receive.
  const TensorView& view() const { return view_; }

  // Copy bytes, starting at byte `first`.
  void write(std::span<const std::byte> from, std::size_t first = 0) const;
  void read(std::span<std::byte> to, std::size_t first = 0) const;
  void fill_zeros() const { memory_->fill_zeros(view_.byte_span()); }
  // The value of a tensor of one element.
  template <typename T>
  void set(T value) const {
    check(view_.elements() == 1 && sizeof(T) == view_.bytes(), "a scalar is written as what it is");
    write(std::as_bytes(std::span(&value, 1)));
  }
  template <typename T>
  T get() const {
    check(view_.elements() == 1 && sizeof(T) == view_.bytes(), "a scalar is read as what it is");
    T value;
    read(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  // The bytes in place; empty if the host cannot access them.
  std::span<std::byte> host_bytes() const;

 private:
  TensorView view_;
  const MemoryAccess* memory_ = nullptr;
};

// Gives the host a tensor's values: in place, or as a copy of the whole tensor.
//
//   HostCopy logits(program.tensor(planned.logits));
//   program.run();
//   logits.refresh();
//   logits.view().data<float>();
class HostCopy {
 public:
  explicit HostCopy(const DeviceTensor& tensor);
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  void refresh();
  const TensorView& view() const { return view_; }

 private:
  DeviceTensor tensor_;
  std::vector<std::byte> bytes_;  // empty if the host can access the tensor
  TensorView view_;
};

// Pass a tensor's bytes in order to a function that reads or fills them, in one piece if the host can access them, else
// in many.
void read_in_pieces(const DeviceTensor& tensor, const std::function<void(std::span<const std::byte>)>& visit);
void write_in_pieces(const DeviceTensor& tensor, const std::function<void(std::span<std::byte>)>& fill);

}  // namespace plimsoll
