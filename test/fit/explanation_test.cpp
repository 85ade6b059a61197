// Tests `plan --explain`: the peak adds up, levers say what they free, neighbours are those that a sweep finds.
#include "fit/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"

namespace plimsoll::test {
namespace {

TEST(Explanation, ThePeakAddsUp) {
  ReferenceBackend backend;
  const FitRequest request = deep_request(2, 6'000);
  RunPlan run = fit(request, backend);
  const std::size_t bound = run.programs.front().plan.lower_bound_bytes;
  const double seconds = run.seconds_per_update;
  const Explanation e = explain_run(request, run, backend);
  EXPECT_TRUE(run.programs.empty());
  EXPECT_EQ(e.alive_bytes, bound);
  std::size_t sum = 0, count = 0;
  for (std::size_t i = 0; i < e.alive.size(); ++i) {
    sum += e.alive[i].bytes;
    count += e.alive[i].count;
    if (i > 0) {
      EXPECT_LE(e.alive[i].bytes, e.alive[i - 1].bytes);
    }
  }
  EXPECT_EQ(sum, bound);
  EXPECT_LE(count, e.buffers);
  EXPECT_TRUE(std::any_of(e.alive.begin(), e.alive.end(), [](const AliveGroup& group) {
    return group.name.find("layer.*.") != std::string::npos && group.count == 4;
  }));
  EXPECT_FALSE(e.peak_node.empty());
  EXPECT_LT(e.peak_position, e.nodes);
  EXPECT_TRUE(e.is_smallest);
  EXPECT_NEAR(std::accumulate(e.phase_seconds.begin(), e.phase_seconds.end(), 0.0), seconds, 1e-9 * seconds);
}

TEST(Explanation, LeversSayWhatTheyFreeAndCost) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = deep_request(2, 6'000);
  request.recompute = RecomputeMode::kLayers;
  request.micro_batch_size = 1;
  RunPlan run = fit(request, backend);
  const Explanation e = explain_run(request, run, backend);
  const auto find = [&](const char* name) {
    return *std::find_if(e.levers.begin(), e.levers.end(), [&](const LeverNote& note) { return note.lever == name; });
  };
  EXPECT_EQ(find("micro-batch").why, "pinned");
  EXPECT_GT(find("micro-batch").freed_bytes, 0);
  EXPECT_GT(find("recompute").freed_bytes, 0);
  EXPECT_GT(find("recompute").extra_seconds, 0);
  EXPECT_TRUE(find("update").alternative.empty());
}

TEST(Explanation, NeighboursAreCheaperAndFaster) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = deep_request(1, 6'000);
  // A budget with others on both sides: what the process itself takes changes by a MiB or two while the test runs.
  const std::vector<PlanSummary> sweep = sweep_budgets(request, 8, backend);
  ASSERT_EQ(sweep.size(), 8);
  ASSERT_GT(sweep[2].budget_bytes, sweep[0].budget_bytes + 4 * kMiB);
  request.budget_bytes = sweep[2].budget_bytes;
  RunPlan run = fit(request, backend);
  const Explanation e = explain_run(request, run, backend);
  ASSERT_TRUE(e.cheaper);
  ASSERT_TRUE(e.larger);
  // Arenas, not peaks: the process has grown since `run` was planned, and the neighbours are plans of now.
  EXPECT_LT(e.cheaper->arena_bytes, run.arena_bytes);
  EXPECT_GT(e.cheaper->seconds_per_update, run.seconds_per_update);
  EXPECT_GT(e.larger->arena_bytes, run.arena_bytes);
  EXPECT_LT(e.larger->seconds_per_update, run.seconds_per_update);
}

}  // namespace
}  // namespace plimsoll::test
