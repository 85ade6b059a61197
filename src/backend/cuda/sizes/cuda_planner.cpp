#include "backend/cuda/sizes/cuda_planner.h"

#include <algorithm>

#include "backend/cuda/sizes/sizes.h"

namespace plimsoll {
namespace {

constexpr const char* kPlansOnly = "an absent GPU is only planned for";

class PlannedKernel final : public Kernel {
 public:
  explicit PlannedKernel(std::size_t scratch_bytes) : scratch_bytes_(scratch_bytes) {}
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void run(const KernelArguments&) const override { check(false, kPlansOnly); }

 private:
  std::size_t scratch_bytes_;
};

class PlannedRecorder final : public Recorder {
 public:
  void run(std::int64_t, const std::function<void()>&) override { check(false, kPlansOnly); }
  double device_seconds() override { return 0; }
};

}  // namespace

std::unique_ptr<Kernel> CudaPlanner::prepare(const Graph& graph, const Node& node) {
  return std::make_unique<PlannedKernel>(cuda::kernel_scratch_bytes(graph, node));
}

std::unique_ptr<DeviceMemory> CudaPlanner::allocate(std::size_t) {
  check(false, kPlansOnly);
  return nullptr;
}

std::unique_ptr<Recorder> CudaPlanner::make_recorder() {
  if (!gpu_.records) return nullptr;
  return std::make_unique<PlannedRecorder>();
}

BufferBytes CudaPlanner::buffer_bytes(std::size_t arena_bytes) const {
  const std::size_t bytes = cuda::copy_ring_bytes(arena_bytes);
  return {.device = bytes, .host = bytes};
}

std::optional<DeviceUse> CudaPlanner::device_use() {
  return DeviceUse{.held_bytes = gpu_.reserved_bytes,
                   .free_bytes = gpu_.memory_bytes - std::min(gpu_.memory_bytes, gpu_.reserved_bytes)};
}

}  // namespace plimsoll
