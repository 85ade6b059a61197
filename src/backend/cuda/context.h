// The device and the stream that a backend's kernels are started on.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/handles.h"

namespace plimsoll::cuda {

class Context {
 public:
  explicit Context(int device) : gpu_(device) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t stream() const { return stream_.get(); }
  // 75, 80, 90: the device's compute capability without its dot.
  int architecture() const { return gpu_.architecture(); }
  const Gpu& gpu() const { return gpu_; }
  // One allocation, zeroed.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) const;
  std::size_t allocated_bytes() const { return allocated_bytes_; }

 private:
  friend class ArenaMemory;

  Gpu gpu_;
  Stream stream_;
  mutable std::size_t allocated_bytes_ = 0;  // in allocations that live
};

}  // namespace plimsoll::cuda
