// Tests the plans of every shape that Plimsoll ships: no packing of their buffers is smaller.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "fit/calibration.h"
#include "fit/step_graphs.h"
#include "support/layoutlmv3_model.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"

namespace plimsoll::test {
namespace {

struct Shape {
  ProgramKind kind;
  UpdateMode update;
  double recomputed;  // fraction of what could be recomputed
  ModelCapacity capacity;
};

// Returns every kind of program, and for steps every lever that moves buffers.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const ProgramKind kind : {ProgramKind::kStep, ProgramKind::kAccumulate, ProgramKind::kAccumulateAndStep,
                                 ProgramKind::kEvaluate, ProgramKind::kGradients}) {
    for (const auto& [samples, text_rows] :
         {std::pair{1, 512}, {1, 77}, {2, 1024}, {3, 1500}, {4, 1333}, {8, 4096}, {16, 5000}}) {
      all.push_back({kind, UpdateMode::kAfterBackward, 0, {.samples = samples, .text_rows = text_rows}});
    }
  }
  for (const UpdateMode update : {UpdateMode::kAfterBackward, UpdateMode::kInBackward, UpdateMode::kTwoPasses}) {
    for (const double recomputed : {0.3, 1.0}) {
      for (const auto& [samples, text_rows] : {std::pair{1, 512}, {2, 1024}, {4, 1333}}) {
        all.push_back({ProgramKind::kStep, update, recomputed, {.samples = samples, .text_rows = text_rows}});
      }
    }
  }
  return all;
}

MemoryPlan plan_of(const std::string& preset, const Shape& shape, CpuBackend& backend) {
  StepOptions options{.definition = layoutlmv3(layoutlmv3_preset(preset)), .model = {}, .optimizer = {}};
  options.update = shape.update;
  options.optimizer.clips = shape.update != UpdateMode::kInBackward;
  if (shape.recomputed > 0) {
    const auto ranked = rank_step_recomputations(options, shape.capacity, typical_speeds());
    const auto count = static_cast<std::size_t>(shape.recomputed * static_cast<double>(ranked.size()));
    for (std::size_t i = 0; i < count; ++i) options.recompute.insert(ranked[i].nodes.begin(), ranked[i].nodes.end());
  }
  const PreparedGraph prepared =
      prepare(build_step_graph(shape.kind, options, shape.capacity, 8 * shape.capacity.text_rows).graph, backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  return plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
}

class Plans : public testing::TestWithParam<const char*> {};

// Only the transient part is compared: parameters and optimizer state would hide a gap.
TEST_P(Plans, AreAsSmallAsAnyCanBe) {
  CpuBackend backend(1);
  std::size_t largest_gap = 0;
  const std::vector<Shape> all = shapes();
  for (const Shape& shape : all) {
    const MemoryPlan plan = plan_of(GetParam(), shape, backend);
    ASSERT_GT(plan.lower_bound_bytes, 0U);
    EXPECT_TRUE(plan.is_smallest) << program_kind_name(shape.kind) << ", updated " << update_mode_name(shape.update)
                                  << ", " << shape.recomputed << " recomputed, " << shape.capacity.samples
                                  << " samples, " << shape.capacity.text_rows
                                  << " rows: " << plan.transient_bytes - plan.lower_bound_bytes
                                  << " bytes over the bound";
    largest_gap = std::max(largest_gap, plan.transient_bytes - plan.lower_bound_bytes);
  }
  std::printf("%s: %zu plans, the worst %zu bytes over its bound\n", GetParam(), all.size(), largest_gap);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Plans,
                         testing::Values("layoutlmv3-tiny", "layoutlmv3-small", "layoutlmv3-base", "layoutlmv3-large"),
                         [](const auto& shape) { return std::string(shape.param).substr(11); });

}  // namespace
}  // namespace plimsoll::test
