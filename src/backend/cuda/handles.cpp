#include "backend/cuda/handles.h"

#include <fmt/format.h>

#include "backend/backend.h"
#include "base/bytes.h"

namespace plimsoll::cuda {

namespace {

// The errors after which the process's context is unusable ("sticky" in NVIDIA's CUDA Programming Guide).
bool ends_the_context(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_cuda(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return;
  if (ends_the_context(error)) {
    throw DeviceError({.what = "the GPU failed while it computed",
                       .found = cudaGetErrorString(error),
                       .remedy = "plimsoll doctor shows the device and its driver"});
  }
  cudaGetLastError();  // else the next launch would report this error
  throw EnvironmentError({.what = fmt::format("the GPU refused: {}", doing),
                          .found = cudaGetErrorString(error),
                          .remedy = "plimsoll doctor shows the device, its driver and who holds its memory"});
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreate(&stream), "a stream");
  stream_.reset(stream);
}

Event::Event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "an event");
  event_.reset(event);
}
void Event::record(cudaStream_t stream) const { check_cuda(cudaEventRecord(get(), stream), "an event"); }
void Event::wait() const { check_cuda(cudaEventSynchronize(get()), "what the device was given"); }
float Event::milliseconds_since(const Event& begin) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), get()), "the time between two events");
  return milliseconds;
}

PinnedBytes::PinnedBytes(std::size_t bytes, std::string_view purpose) : bytes_(bytes) {
  void* address = nullptr;
  check_cuda(cudaMallocHost(&address, bytes), fmt::format("{} of the host's memory {}", format_bytes(bytes), purpose));
  data_.reset(static_cast<std::byte*>(address));
}

DeviceBytes::DeviceBytes(std::size_t bytes) : bytes_(bytes) {
  void* address = nullptr;
  check_cuda(cudaMalloc(&address, bytes), fmt::format("{} of device memory", format_bytes(bytes)));
  data_.reset(static_cast<std::byte*>(address));
}

}  // namespace plimsoll::cuda
