// The device and the stream that a backend's kernels are started on, and errors of the runtime as typed errors.
#pragma once

#include <memory>
#include <string_view>

#ifdef PLIMSOLL_CUDA_EMULATED
#include "cuda_emulator.h"
#else
#include <cuda_runtime_api.h>
#endif

#include "backend/backend.h"
#include "backend/cuda/gpu.h"

namespace plimsoll::cuda {

// Throws EnvironmentError with the runtime's words; `doing` names what was asked for.
void check_cuda(cudaError_t error, std::string_view doing);

class Context {
 public:
  explicit Context(int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t stream() const { return stream_; }
  // 75, 80, 90: the device's compute capability without its dot.
  int architecture() const { return gpu_.architecture(); }
  const Gpu& gpu() const { return gpu_; }
  // One allocation, zeroed.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) const;
  std::size_t allocated_bytes() const { return allocated_bytes_; }

 private:
  friend class ArenaMemory;

  Gpu gpu_;
  cudaStream_t stream_ = nullptr;
  mutable std::size_t allocated_bytes_ = 0;  // in allocations that live
};

}  // namespace plimsoll::cuda
