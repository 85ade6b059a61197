// Plans for a GPU that is not here are, byte for byte, those for the GPU: here the emulated one.
#include "backend/cuda/sizes/cuda_planner.h"

#include <gtest/gtest.h>

#include <functional>

#include "backend/cuda/cuda_backend.h"
#include "fit/fit.h"
#include "fit/small_request.h"
#include "model/lora.h"

namespace plimsoll::test {
namespace {

struct Case {
  const char* name;
  std::function<void(FitRequest&)> set;
};
std::ostream& operator<<(std::ostream& stream, const Case& tested) { return stream << tested.name; }

void add_adapters(FitRequest& request) {
  request.step.model.lora = {
      .rank = 4, .alpha = 8, .modules = lora_modules(request.step.definition.encoder().linear_maps(), {"all-linear"})};
}

class CudaPlan : public testing::TestWithParam<Case> {};

TEST_P(CudaPlan, IsTheSameWithoutTheGpu) {
  CudaBackend gpu;
  CudaPlanner planner({.memory_bytes = 80 * kGiB, .reserved_bytes = gpu.reserved_bytes()});
  for (const DType precision : {DType::kF32, DType::kBF16, DType::kF16}) {
    FitRequest request = small_request(4);
    request.loader_bytes = [](const ModelCapacity&) { return kMiB; };
    request.process_bytes = [] { return 40 * kMiB; };
    request.step.precision = precision;
    request.step.optimizer.unscales = precision == DType::kF16;
    request.host_budget_bytes = kGiB;
    GetParam().set(request);
    const std::size_t least = smallest_plan(request, gpu).predicted_peak_bytes + kMiB;
    for (const std::size_t budget : {least, least + 2 * kMiB, least + 64 * kMiB}) {
      request.budget_bytes = budget;
      const RunPlan there = fit(request, gpu), here = fit(request, planner);
      EXPECT_EQ(here.levers.micro_batch_size, there.levers.micro_batch_size);
      EXPECT_EQ(here.levers.update, there.levers.update);
      EXPECT_EQ(here.arena_bytes, there.arena_bytes);
      EXPECT_EQ(here.predicted_peak_bytes, there.predicted_peak_bytes);
      EXPECT_EQ(here.host_peak_bytes, there.host_peak_bytes);
      EXPECT_EQ(here.seconds_per_update, there.seconds_per_update);
      EXPECT_EQ(here.seconds_to_save, there.seconds_to_save);
      ASSERT_EQ(here.programs.size(), there.programs.size());
      for (std::size_t i = 0; i < here.programs.size(); ++i) {
        EXPECT_EQ(here.programs[i].prepared.scratch_bytes(), there.programs[i].prepared.scratch_bytes())
            << dtype_name(precision) << ", program " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Runs, CudaPlan,
    testing::Values(Case{"full", [](FitRequest&) {}}, Case{"evaluates", [](FitRequest& r) { r.evaluates = true; }},
                    Case{"codes", [](FitRequest& r) { r.step.optimizer.kind = OptimizerKind::kAdamW8bit; }},
                    Case{"adafactor", [](FitRequest& r) { r.step.optimizer.kind = OptimizerKind::kAdafactor; }},
                    Case{"adapters", add_adapters},
                    Case{"adapters_on_4_bits",
                         [](FitRequest& r) {
                           add_adapters(r);
                           r.step.model.frozen_weights = DType::kNF4;
                         }},
                    Case{"adapters_on_8_bits",
                         [](FitRequest& r) {
                           add_adapters(r);
                           r.step.model.frozen_weights = DType::kQ8;
                         }},
                    Case{"in_backward",
                         [](FitRequest& r) {
                           r.step.optimizer.clips = false;
                           // Updates in F16 wait for the norm of all gradients.
                           if (r.step.precision != DType::kF16) r.update = UpdateMode::kInBackward;
                         }},
                    Case{"layers", [](FitRequest& r) { r.recompute = RecomputeMode::kLayers; }},
                    Case{"offload", [](FitRequest& r) { r.offload = OffloadTarget::kHost; }}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace plimsoll::test
