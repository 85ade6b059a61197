// Kernels for NVIDIA GPUs. One backend is one device and one stream; its memory is the device's, which the host reaches
// by copies (tensor/device_tensor.h). Row counts are read on the device, so that the host never waits for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll {

namespace cuda {
class Context;
class Gpu;
class Matmuls;
class RankExchange;
}  // namespace cuda

class CudaBackend final : public Backend {
 public:
  // Uses the driver's device with that number. Throws EnvironmentError if there is none that this build and the driver
  // can use.
  explicit CudaBackend(int device = 0);
  ~CudaBackend() override;

  std::string_view name() const override { return "cuda"; }
  bool rounds_parameters() const override { return true; }
  std::int64_t fewest_loss_rows() const override { return cuda::kLossRows; }
  bool keeps_attention_biases() const override { return true; }
  bool adds_to_products(DType) const override { return true; }
  bool batches_products() const override { return true; }
  std::int64_t parts_of_sums(const Graph& graph, const Node& node) const override {
    return cuda::possible_partial_sums(graph, node);
  }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  // Throws EnvironmentError, naming who holds the rest, if not enough is free.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;
  std::unique_ptr<Recorder> make_recorder() override;
  // Measures copies of 32 MiB each way, for about a hundredth of a second.
  std::optional<TransferSpeed> offload_speed() override;
  BufferBytes buffer_bytes(std::size_t arena_bytes) const override;
  // The store is pinned memory of the host.
  std::unique_ptr<OffloadStore> make_offload_store(std::uint64_t bytes, std::size_t tickets) override;
  void prepare_bounds(std::span<const std::int64_t> row_bounds) override;
  // The choices are cuBLASLt's algorithms for matrix products; see cuda::Matmuls.
  Choices choices() override;
  bool use_choices(const Choices& choices, const std::string& where) override;
  std::size_t tune(const DeviceMemory& memory) override;
  std::optional<DeviceUse> device_use() override;
  std::size_t reserved_bytes() override;
  void wait() override;
  // Connects by NCCL, which is loaded here.
  void connect(Communicator& ranks, std::chrono::milliseconds timeout) override;
  std::size_t connection_bytes() const override;

  const cuda::Gpu& gpu() const;

  // Launches kernels one by one, for debugging: no step is recorded.
  void start_one_by_one() { records_ = false; }
  // Computes each matrix product on its own, for comparisons.
  void multiply_one_by_one();

 private:
  std::unique_ptr<Kernel> make(const Graph& graph, const Node& node);
  cuda::Matmuls& matmuls();

  bool records_ = true;
  std::unique_ptr<cuda::Context> context_;
  std::unique_ptr<cuda::RankExchange> exchange_;  // if there are several ranks
  std::unique_ptr<cuda::Matmuls> matmuls_;        // made at the first product, because it loads a large library
};

}  // namespace plimsoll
