// A backend that plans a run for a GPU that is absent, and cannot run it. Scratch and buffers are those of the real
// kernels, from the same formulas: they do not depend on the card. What depends on the card, its driver or its
// libraries is assumed.
//
//   CudaPlanner backend({.memory_bytes = 8 * kGiB});
//   RunPlan run = fit(request, backend);
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "backend/backend.h"
#include "backend/cuda/sizes/sums.h"
#include "base/bytes.h"

namespace plimsoll {

struct AssumedGpu {
  std::size_t memory_bytes = 0;  // 0: unknown
  // The device memory that the context, kernels and cuBLASLt take. A context usually takes 300 to 600 MiB.
  std::size_t reserved_bytes = kGiB;
  // The driver and the libraries add this much to the process on the host.
  std::size_t host_bytes = 512 * kMiB;
  // Pinned memory reaches about this much over 16 lanes of PCIe 3.0; newer cards are faster.
  TransferSpeed transfer{.read_bytes_per_second = 12e9, .write_bytes_per_second = 12e9, .both_ways = true};
  bool records = true;  // steps are recorded as CUDA graphs, which are not interrupted
};

class CudaPlanner final : public Backend {
 public:
  explicit CudaPlanner(const AssumedGpu& gpu) : gpu_(gpu) {}

  const AssumedGpu& gpu() const { return gpu_; }

  std::string_view name() const override { return "cuda"; }
  // Returns a kernel that only knows its scratch_bytes().
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  // Throws InternalError: nothing can be allocated on an absent GPU.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override;
  std::unique_ptr<Recorder> make_recorder() override;
  std::optional<TransferSpeed> offload_speed() override { return gpu_.transfer; }
  bool adds_to_products(DType) const override { return true; }
  bool batches_products() const override { return true; }
  std::int64_t parts_of_sums(const Graph& graph, const Node& node) const override {
    return cuda::possible_partial_sums(graph, node);
  }
  bool rounds_parameters() const override { return true; }
  std::int64_t fewest_loss_rows() const override { return cuda::kLossRows; }
  bool keeps_attention_biases() const override { return true; }
  BufferBytes buffer_bytes(std::size_t arena_bytes) const override;
  std::optional<DeviceUse> device_use() override;
  std::size_t reserved_bytes() override { return gpu_.reserved_bytes; }

 private:
  AssumedGpu gpu_;
};

}  // namespace plimsoll
