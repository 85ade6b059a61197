// The plans of every shape that Plimsoll ships: how near the arena comes to the bound that no packing can beat.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "fit/step_graphs.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"

namespace plimsoll::test {
namespace {

constexpr double kMostOver = 0.01;  // of the bound

double over_bound(const std::string& preset, ProgramKind kind, const ModelCapacity& capacity, CpuBackend& backend) {
  const StepOptions options{.config = preset_config(preset), .model = {}, .optimizer = {}};
  const PreparedGraph prepared =
      prepare(build_step_graph(kind, options, capacity, 8 * capacity.text_rows).graph, backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  EXPECT_GT(plan.lower_bound_bytes, 0U);
  return static_cast<double>(plan.transient_bytes) / static_cast<double>(plan.lower_bound_bytes) - 1;
}

class Plans : public testing::TestWithParam<const char*> {};

// Only what lives inside a step is measured: parameters and optimizer state would hide the gap.
TEST_P(Plans, LieWithinOnePercentOfTheirBound) {
  CpuBackend backend(1);
  double worst = 0;
  int plans = 0;
  for (const ProgramKind kind : {ProgramKind::kStep, ProgramKind::kAccumulate, ProgramKind::kAccumulateAndStep,
                                 ProgramKind::kEvaluate, ProgramKind::kGradients}) {
    for (const auto& [samples, text_rows] :
         {std::pair{1, 512}, {1, 77}, {2, 1024}, {3, 1500}, {4, 1333}, {8, 4096}, {16, 5000}}) {
      const double over = over_bound(GetParam(), kind, {.samples = samples, .text_rows = text_rows}, backend);
      EXPECT_LE(over, kMostOver) << program_kind_name(kind) << " of " << samples << " samples, " << text_rows
                                 << " rows";
      worst = std::max(worst, over);
      ++plans;
    }
  }
  std::printf("%s: %d plans, the worst %.3f %% over its bound (bar: %.0f %%)\n", GetParam(), plans, 100 * worst,
              100 * kMostOver);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Plans,
                         testing::Values("layoutlmv3-tiny", "layoutlmv3-small", "layoutlmv3-base", "layoutlmv3-large"),
                         [](const auto& shape) { return std::string(shape.param).substr(11); });

}  // namespace
}  // namespace plimsoll::test
