// Kernels for NVIDIA GPUs. One backend is one device and one stream; its memory is the device's, which the host reaches
// by copies (tensor/device_tensor.h). Row counts are read on the device, so that the host never waits for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"

namespace plimsoll {

namespace cuda {
class Context;
class Gpu;
class Matmuls;
}  // namespace cuda

class CudaBackend final : public Backend {
 public:
  // On the driver's device of that number. Throws EnvironmentError where there is none that this build and the driver
  // can use.
  explicit CudaBackend(int device = 0);
  ~CudaBackend() override;

  std::string_view name() const override { return "cuda"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  // Refuses, naming who holds the rest, what is not free.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;
  std::unique_ptr<Recorder> make_recorder() override;
  // In the host's memory, pinned.
  std::unique_ptr<OffloadStore> make_offload_store(std::uint64_t bytes, std::size_t tickets) override;
  void prepare_bounds(std::span<const std::int64_t> row_bounds) override;
  std::optional<DeviceUse> device_use() override;
  std::size_t reserved_bytes() override;
  void wait() override;

  const cuda::Gpu& gpu() const;

  // Kernels are started one by one, for debugging: no step is recorded.
  void start_one_by_one() { records_ = false; }

  // Makes the matrix products of all kernels that are prepared ready for these bounds of rows, each by the fastest of
  // cuBLASLt's algorithms, tried in `memory`, which is overwritten. Results repeat bit for bit only with the same
  // algorithms: they are taken over from one run to the next as a table of texts, for one device and one version of
  // cuBLAS. See cuda::Matmuls.
  void tune_products(std::span<const std::int64_t> row_bounds, const DeviceMemory& memory);
  std::map<std::string, std::string> product_choices();
  void use_product_choices(std::map<std::string, std::string> choices);

 private:
  cuda::Matmuls& matmuls();

  bool records_ = true;
  std::unique_ptr<cuda::Context> context_;
  std::unique_ptr<cuda::Matmuls> matmuls_;  // made for the first product: it loads a large library
};

}  // namespace plimsoll
