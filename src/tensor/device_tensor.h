// DeviceTensor: a tensor in a memory that the host may have to copy from and to.
//
// A backend's tensors have addresses that only its kernels may follow. Whoever else wants their values takes this way,
// on the CPU too, so that no code depends on where a run's arena lies.
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

// One memory: the host's own, unless derived. Copies are ordered after all that its backend was asked to run before, and
// before all that it is asked next. A read is done when it returns; of what is written the caller may do as it likes.
class MemoryAccess {
 public:
  MemoryAccess() = default;
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
  virtual ~MemoryAccess() = default;

  // Whether the host may follow its addresses.
  virtual bool is_host() const { return true; }
  virtual void write(std::span<const std::byte> from, void* to) const;
  virtual void read(const void* from, std::span<std::byte> to) const;
  virtual void fill_zeros(std::span<std::byte> bytes) const;
};

// The host's own memory.
const MemoryAccess& host_memory();

class DeviceTensor {
 public:
  DeviceTensor() = default;
  // `memory` outlives the tensor.
  DeviceTensor(const TensorView& view, const MemoryAccess& memory) : view_(view), memory_(&memory) {}
  // A tensor of the host's.
  explicit DeviceTensor(const TensorView& view) : DeviceTensor(view, host_memory()) {}

  bool exists() const { return view_.raw() != nullptr; }
  const TensorType& type() const { return view_.type(); }
  const Shape& shape() const { return view_.shape(); }
  DType dtype() const { return view_.dtype(); }
  std::int64_t elements() const { return view_.elements(); }
  std::size_t bytes() const { return view_.bytes(); }
  // What kernels are given.
  const TensorView& view() const { return view_; }

  // Copies of the bytes from `first` on.
  void write(std::span<const std::byte> from, std::size_t first = 0) const;
  void read(std::span<std::byte> to, std::size_t first = 0) const;
  void fill_zeros() const { memory_->fill_zeros(view_.byte_span()); }
  // The only element.
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
  // The bytes where they lie; empty if the host cannot reach them.
  std::span<std::byte> host_bytes() const;

 private:
  TensorView view_;
  const MemoryAccess* memory_ = nullptr;
};

// A tensor's values where the host can look at them: in place, or in a copy of the size of the tensor.
//
//   HostCopy logits(program.tensor(planned.logits));
//   program.run();
//   logits.refresh();
//   logits.view().data<float>()
class HostCopy {
 public:
  explicit HostCopy(const DeviceTensor& tensor);
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  void refresh();
  const TensorView& view() const { return view_; }

 private:
  DeviceTensor tensor_;
  std::vector<std::byte> bytes_;  // empty where the host reaches the tensor
  TensorView view_;
};

// Shows a tensor's bytes in order, in one piece where the host can reach them and else in many; to be read, or to be
// filled.
void read_in_pieces(const DeviceTensor& tensor, const std::function<void(std::span<const std::byte>)>& visit);
void write_in_pieces(const DeviceTensor& tensor, const std::function<void(std::span<std::byte>)>& fill);

}  // namespace plimsoll
