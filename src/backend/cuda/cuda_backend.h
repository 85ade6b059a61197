// Kernels for NVIDIA GPUs. One backend is one device and one stream; its memory is the device's, which the host reaches
// by copies (tensor/device_tensor.h). Row counts are read on the device, so that the host never waits for them.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"

namespace plimsoll {

namespace cuda {
class Context;
}

class CudaBackend final : public Backend {
 public:
  // Throws EnvironmentError where there is no device that this build has kernels for.
  CudaBackend();
  ~CudaBackend() override;

  std::string_view name() const override { return "cuda"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;

  // The ops that it has kernels for, while it is being written.
  static std::span<const Op> ops();

 private:
  std::unique_ptr<cuda::Context> context_;
};

}  // namespace plimsoll
