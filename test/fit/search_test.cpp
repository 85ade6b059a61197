// Tests the search's choices when memory is short: bytes here come from activations, not from the loader.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "fit/fit.h"
#include "fit/small_request.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

std::size_t peak(const FitRequest& request, const Levers& levers, Backend& backend) {
  return plan_run(request, levers, backend).predicted_peak_bytes;
}

TEST(Search, RecomputesAsLittleAsTheBudgetAsksFor) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = deep_request(1);
  const std::size_t plain = peak(request, {.micro_batch_size = 1}, backend);
  request.recompute = RecomputeMode::kLayers;
  const RunPlan all = fit(request, backend);
  EXPECT_LT(all.predicted_peak_bytes, plain * 3 / 4);
  request.recompute = RecomputeMode::kAuto;
  std::size_t before = 0;
  for (const double share : {0.9, 0.6, 0.3}) {
    request.budget_bytes = all.predicted_peak_bytes +
                           static_cast<std::size_t>(share * static_cast<double>(plain - all.predicted_peak_bytes));
    const RunPlan run = fit(request, backend);
    EXPECT_LE(run.predicted_peak_bytes, request.budget_bytes);
    EXPECT_GT(run.levers.recompute.size(), before) << share;
    EXPECT_LT(run.levers.recompute.size(), all.levers.recompute.size());
    EXPECT_GT(run.seconds_per_update, plan_run(request, {.micro_batch_size = 1}, backend).seconds_per_update);
    EXPECT_LT(run.seconds_per_update, all.seconds_per_update);
    // One fewer would not fit, except for variations of the process's size.
    Levers fewer = run.levers;
    fewer.recompute.pop_back();
    EXPECT_GT(peak(request, fewer, backend) + 4 * kMiB, request.budget_bytes);
    before = run.levers.recompute.size();
  }
}

TEST(Search, ForbiddenRecomputationIsNotUsed) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = deep_request(1);
  request.recompute = RecomputeMode::kNone;
  request.budget_bytes = peak(request, {.micro_batch_size = 1}, backend) - 16 * kMiB;
  expect_error<BudgetError>([&] { fit(request, backend); }, {"does not fit"});
}

TEST(Search, FewerPagesAtOnceComeBeforeRecomputation) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = deep_request(4);
  request.budget_bytes = peak(request, {.micro_batch_size = 2}, backend) + 8 * kMiB;
  const RunPlan run = fit(request, backend);
  EXPECT_EQ(run.levers.micro_batch_size, 2);
  EXPECT_TRUE(run.levers.recompute.empty());
}

TEST(Search, WithoutClippingGradientsAreConsumedInBackward) {
  ReferenceBackend backend;
  FitRequest request = deep_request(2);
  request.step.optimizer.clips = false;
  EXPECT_EQ(fit(request, backend).levers.update, UpdateMode::kInBackward);
  request.update = UpdateMode::kAfterBackward;
  EXPECT_EQ(fit(request, backend).levers.update, UpdateMode::kAfterBackward);
  request.micro_batch_size = 1;  // gradients are summed, so none can be consumed
  request.update.reset();
  EXPECT_EQ(fit(request, backend).levers.update, UpdateMode::kAfterBackward);
}

// In a wide model with few rows the gradients, all alive before clipping, are the peak.
TEST(Search, TwoPassesWhereGradientsDoNotFit) {
  ReferenceBackend backend;
  FitRequest request = small_request(1);
  request.loader_bytes = nullptr;
  use_model(request, wide_config());
  const std::size_t plain = peak(request, {.micro_batch_size = 1}, backend);
  const std::size_t twice = peak(request, {.micro_batch_size = 1, .update = UpdateMode::kTwoPasses}, backend);
  ASSERT_LT(twice + 32 * kMiB, plain);
  request.budget_bytes = (plain + twice) / 2;
  const RunPlan run = fit(request, backend);
  EXPECT_EQ(run.levers.update, UpdateMode::kTwoPasses);
  EXPECT_LE(run.predicted_peak_bytes, request.budget_bytes);
  // Two passes take a second backward.
  EXPECT_GT(run.seconds_per_update, plan_run(request, {.micro_batch_size = 1}, backend).seconds_per_update);
}

TEST(Sweep, MoreMemoryIsNeverSlower) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  const FitRequest request = deep_request(4);
  const std::vector<PlanSummary> plans = sweep_budgets(request, 6, backend);
  ASSERT_EQ(plans.size(), 6U);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_TRUE(plans[i].fits());
    EXPECT_GT(plans[i].seconds_per_update, 0);
    if (i == 0) continue;
    EXPECT_GT(plans[i].budget_bytes, plans[i - 1].budget_bytes);
    // Estimates within a thousandth count as equal: then fewer micro-batches are chosen.
    EXPECT_LE(plans[i].seconds_per_update, plans[i - 1].seconds_per_update * 1.001);
  }
  EXPECT_FALSE(plans.front().levers.recompute.empty());
  EXPECT_TRUE(plans.back().levers.recompute.empty());
  EXPECT_EQ(plans.back().levers.micro_batch_size, 4);
}

TEST(Sweep, ARunAcceptsEveryBudget) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  for (const OffloadTarget target : {OffloadTarget::kNone, OffloadTarget::kFile}) {
    for (const std::int64_t batch : {1, 4}) {
      FitRequest request = deep_request(batch);
      request.offload = target;
      const std::vector<PlanSummary> plans = sweep_budgets(request, 4, backend);
      EXPECT_EQ(plans.size(), 4U);
      for (const PlanSummary& plan : plans) {
        request.budget_bytes = plan.budget_bytes;
        EXPECT_NO_THROW(fit(request, backend)) << batch << " " << plan.budget_bytes;
      }
      // It begins at the budget that a refusal names, but for what the process has grown meanwhile.
      request.budget_bytes = 1;
      try {
        fit(request, backend);
        FAIL() << "a byte is enough";
      } catch (const BudgetTooSmall& refused) {
        EXPECT_LE(plans.front().budget_bytes, refused.smallest_budget_bytes() + 6 * kMiB);
      }
    }
  }
}

TEST(Search, ClippedGradientsCannotBeConsumedInOnePass) {
  ReferenceBackend backend;
  FitRequest request = deep_request(1);
  request.update = UpdateMode::kInBackward;
  expect_error<UsageError>([&] { fit(request, backend); }, {"--max-grad-norm", "two-passes"});
}

}  // namespace
}  // namespace plimsoll::test
