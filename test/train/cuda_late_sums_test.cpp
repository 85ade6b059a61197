// Sums over rows that an emulated GPU leaves in parts and adds up once a step (transform/partial_sums.h): a run that
// has the memory does so, and its bits are those of one that has not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/sizes/cuda_planner.h"
#include "fit/fit.h"
#include "fit/small_request.h"
#include "trainer_fixture.h"

namespace plimsoll::test {
namespace {

TEST(CudaLateSums, AreAddedUpOnceWhereMemoryIsPlenty) {
  CudaPlanner planner({.memory_bytes = 80 * kGiB});
  FitRequest request = small_request(4);
  const auto count = [&](bool keeps_cheap) {
    const RunPlan run = plan_run(request, {.micro_batch_size = 4, .keeps_cheap = keeps_cheap}, planner);
    return std::ranges::count(run.programs.front().prepared.graph.nodes(), Op::kAddPartialSums, &Node::op);
  };
  EXPECT_EQ(count(false), 0);
  EXPECT_EQ(count(true), 1);
}

// A run adds up its sums late where it recomputes nothing, and at once where it recomputes layers.
TEST(CudaLateSums, GiveTheSameBitsInEveryKindOfStep) {
  const ScratchFolder folder;
  const auto trained = [&](const std::string& name, RecomputeMode recompute,
                           const std::function<void(SmallRun&)>& prepare) {
    SmallRun run(folder.make(name));
    run.options.max_steps = 3;
    run.micro_batch = run.options.train_batch_size;
    run.recompute = recompute;
    run.make_backend = [] { return std::make_unique<CudaBackend>(); };
    prepare(run);
    run.train();
    const bool adapts = run.parts.lora_rank > 0;
    return file_bytes(run.options.output_dir / (adapts ? "adapter_model.safetensors" : "model.safetensors"));
  };
  const std::vector<std::pair<std::string, std::function<void(SmallRun&)>>> kinds = {
      {"plain", [](SmallRun&) {}},
      {"accumulated", [](SmallRun& run) { run.micro_batch = 2; }},
      {"halves", [](SmallRun& run) { run.options.precision = DType::kBF16; }},
      {"early",
       [](SmallRun& run) {
         run.options.max_grad_norm = 0;
         run.update = UpdateMode::kInBackward;
       }},
      {"adapters", [&](SmallRun& run) {
         run.model = folder.path() / "plain_late";
         run.parts.lora_rank = 4;
       }}};
  for (const auto& [name, prepare] : kinds) {
    SCOPED_TRACE(name);
    const std::string late = trained(name + "_late", RecomputeMode::kAuto, prepare);
    EXPECT_TRUE(late == trained(name + "_at_once", RecomputeMode::kLayers, prepare));
  }
}

}  // namespace
}  // namespace plimsoll::test
