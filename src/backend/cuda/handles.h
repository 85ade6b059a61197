// Errors of the CUDA runtime as typed errors, and owners of its streams, events and memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#ifdef PLIMSOLL_CUDA_EMULATED
#include "cuda_emulator.h"
#else
#include <cuda_runtime_api.h>
#endif

namespace plimsoll::cuda {

// Throws EnvironmentError with the runtime's message; `doing` names the attempt. Throws DeviceError for an earlier
// error of a kernel or of the device: that is reported late, by whatever call comes next, and nothing runs any more.
void check_cuda(cudaError_t error, std::string_view doing);

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};

class Stream {
 public:
  Stream();
  cudaStream_t get() const { return stream_.get(); }

 private:
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy<cudaStreamDestroy>> stream_;
};

class Event {
 public:
  Event();
  cudaEvent_t get() const { return event_.get(); }
  // Marks all earlier work of the stream.
  void record(cudaStream_t stream) const;
  void wait() const;
  // Returns the device's time from another event to this one; both must have happened.
  float milliseconds_since(const Event& begin) const;

 private:
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy<cudaEventDestroy>> event_;
};

// Host memory that the device can read and write directly (pinned).
class PinnedBytes {
 public:
  // Throws EnvironmentError if the host refuses it; `purpose` names its use.
  PinnedBytes(std::size_t bytes, std::string_view purpose);
  std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte, Destroy<cudaFreeHost>> data_;
  std::size_t bytes_;
};

// Device memory with undefined content.
class DeviceBytes {
 public:
  // Throws EnvironmentError if the device does not have it.
  explicit DeviceBytes(std::size_t bytes);
  std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte, Destroy<cudaFree>> data_;
  std::size_t bytes_;
};

}  // namespace plimsoll::cuda
