// Tests forty budgets with every lever: more memory never hurts, and the budget that a refusal names is
// enough.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "backend/cuda/sizes/cuda_planner.h"
#include "backend/reference/reference_backend.h"
#include "base/error.h"
#include "fit/fit.h"
#include "fit/small_request.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

constexpr std::size_t kProcessBytes = 40 * kMiB;

// Most memory goes to activations of many rows, and the process's own memory is fixed.
FitRequest long_request(std::int64_t batch) {
  FitRequest request = small_request(batch);
  use_model(request, small_config(2));
  request.text_rows = [](std::int64_t micro) { return 3'000 * micro; };
  request.evaluation_text_rows = [](std::int64_t micro) { return 3'500 * micro; };
  request.update_text_rows = 3'000 * batch;
  request.loader_bytes = [](const ModelCapacity& capacity) {
    return static_cast<std::size_t>(capacity.samples) * kMiB / 8;
  };
  request.process_bytes = [] { return kProcessBytes; };
  return request;
}

struct Case {
  const char* name;
  std::function<void(FitRequest&)> set;
  bool pins_a_slower_way = false;  // more memory may then allow the requested, slower way
};

// Returns the cases with the names that a failing one prints.
std::vector<Case> cases() {
  return {{"auto", [](FitRequest&) {}},
          {"no recomputation", [](FitRequest& r) { r.recompute = RecomputeMode::kNone; }},
          {"layers", [](FitRequest& r) { r.recompute = RecomputeMode::kLayers; }},
          {"unclipped", [](FitRequest& r) { r.step.optimizer.clips = false; }},
          {"two passes", [](FitRequest& r) { r.update = UpdateMode::kTwoPasses; }, true},
          {"after backward, no recomputation",
           [](FitRequest& r) {
             r.update = UpdateMode::kAfterBackward;
             r.recompute = RecomputeMode::kNone;
           }},
          {"micro-batch of 2", [](FitRequest& r) { r.micro_batch_size = 2; }},
          {"micro-batch of 3, layers",
           [](FitRequest& r) {
             r.micro_batch_size = 3;
             r.recompute = RecomputeMode::kLayers;
           }},
          {"whole batch, no recomputation",
           [](FitRequest& r) {
             r.micro_batch_size = r.train_batch_size;
             r.recompute = RecomputeMode::kNone;
           }},
          {"evaluates", [](FitRequest& r) { r.evaluates = true; }},
          {"evaluation alone",
           [](FitRequest& r) {
             r.trains = false;
             r.evaluates = true;
           }},
          {"bf16", [](FitRequest& r) { r.step.precision = DType::kBF16; }},
          {"offload",
           [](FitRequest& r) {
             r.offload = OffloadTarget::kFile;
             r.offload_directory = ".";
             r.speeds.offload_read_seconds_per_byte = r.speeds.offload_write_seconds_per_byte = 1 / 500e6;
           }},
          {"offload, no recomputation", [](FitRequest& r) {
             r.recompute = RecomputeMode::kNone;
             r.offload = OffloadTarget::kFile;
             r.offload_directory = ".";
             r.speeds.offload_read_seconds_per_byte = r.speeds.offload_write_seconds_per_byte = 1 / 500e6;
           }}};
}

class Budgets : public testing::TestWithParam<Case> {};

// How many budgets are tried, and how much above the plan that no budget limits they go.
struct Budgeted {
  std::size_t budgets = 40;
  std::size_t most_scratch_bytes = 0;  // the scratch of kernels, which that plan lacks where there are many rows
};

// `later`: the backend of another process, which may hold half a MiB more.
void expect_more_memory_never_hurts(FitRequest request, Backend& backend, Backend& later, const Budgeted& range,
                                    const Case& tested) {
  request.budget_bytes = 0;
  const std::size_t most = choose_plan(request, backend)->predicted_peak_bytes + range.most_scratch_bytes + 2 * kMiB;
  const std::size_t least = smallest_plan(request, backend).predicted_peak_bytes - 2 * kMiB;
  ASSERT_LT(least, most);
  std::optional<double> seconds;  // the least so far, from the first budget that was enough
  std::size_t last_refused = 0;
  for (std::size_t i = 0; i < range.budgets; ++i) {
    request.budget_bytes = least + (most - least) * i / (range.budgets - 1);
    const std::optional<RunPlan> run = try_fit(request, backend);
    if (!run) {
      EXPECT_FALSE(seconds.has_value()) << "less was enough: " << request.budget_bytes;
      last_refused = request.budget_bytes;
      continue;
    }
    EXPECT_LE(run->predicted_peak_bytes, request.budget_bytes);
    // Estimates within a thousandth count as equal: then fewer micro-batches are chosen.
    if (seconds && !tested.pins_a_slower_way) {
      EXPECT_LE(run->seconds_per_update, *seconds * 1.001) << request.budget_bytes;
    }
    seconds = std::min(run->seconds_per_update, seconds.value_or(run->seconds_per_update));
  }
  EXPECT_TRUE(seconds.has_value());
  ASSERT_GT(last_refused, 0U);
  // The budget that the refusal names is enough, even if the process holds half a MiB more.
  for (const std::size_t budget : {std::size_t{kMiB}, last_refused}) {
    request.budget_bytes = budget;
    std::size_t named = 0;
    try {
      fit(request, backend);
      ADD_FAILURE() << "not refused";
    } catch (const BudgetTooSmall& error) {
      named = error.smallest_budget_bytes();
    }
    EXPECT_GT(named, budget);
    FitRequest again = request;
    again.budget_bytes = named;
    again.process_bytes = [] { return kProcessBytes + kMiB / 2; };
    EXPECT_TRUE(try_fit(again, later).has_value()) << named;
  }
}

TEST_P(Budgets, MoreMemoryNeverHurtsAndTheNamedBudgetRuns) {
  ReferenceBackend backend;
  FitRequest request = long_request(6);
  GetParam().set(request);
  expect_more_memory_never_hurts(request, backend, backend, {}, GetParam());
}

class GpuBudgets : public testing::TestWithParam<Case> {};

TEST_P(GpuBudgets, MoreMemoryOfAGpuThatIsNotHereNeverHurtsEither) {
  CudaPlanner backend({.memory_bytes = kGiB, .reserved_bytes = 40 * kMiB});
  CudaPlanner later({.memory_bytes = kGiB, .reserved_bytes = 40 * kMiB + kMiB / 2});
  FitRequest request = long_request(6);
  // With fewer words than rows, gradients summed over micro-batches have fewer rows than those of one batch, and would
  // be estimated as faster.
  LabelledConfig config = small_config(2);
  config.vocab_size = 20'000;
  use_model(request, config);
  request.speeds = typical_gpu_speeds();
  GetParam().set(request);
  request.host_budget_bytes = 4 * kGiB;
  if (request.offload == OffloadTarget::kFile) request.offload = OffloadTarget::kHost;
  const Budgeted range{.budgets = 16, .most_scratch_bytes = 256 * kMiB};
  expect_more_memory_never_hurts(request, backend, later, range, GetParam());
}

std::string case_name(const testing::TestParamInfo<Case>& tested) {
  std::string name = tested.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

// The search is the same as for a budget of the host's memory, so one case of each kind is enough.
std::vector<Case> gpu_cases() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& each) {
    const std::string name = each.name;
    return name != "auto" && name != "whole batch, no recomputation" && name != "bf16" && name != "offload";
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Levers, Budgets, testing::ValuesIn(cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Levers, GpuBudgets, testing::ValuesIn(gpu_cases()), case_name);

}  // namespace
}  // namespace plimsoll::test
