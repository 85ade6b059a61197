// Tests plans for a device with its own memory: what counts there, and what counts on the host.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "fit/fit.h"
#include "fit/small_request.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

class DeviceBackend final : public Backend {
 public:
  std::string_view name() const override { return "device"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override { return near_.prepare(graph, node); }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return near_.allocate(bytes); }
  std::optional<DeviceUse> device_use() override {
    return DeviceUse{.held_bytes = reserved + kMiB, .free_bytes = 10 * kGiB};
  }
  std::size_t reserved_bytes() override { return reserved; }
  BufferBytes buffer_bytes(std::size_t) const override { return {.device = 2 * kMiB, .host = 3 * kMiB}; }

  std::size_t reserved = 300 * kMiB;

 private:
  ReferenceBackend near_;
};

std::size_t item(const std::vector<MemoryItem>& items, const std::string& name) {
  for (const MemoryItem& each : items) {
    if (each.name == name) return each.bytes;
  }
  return 0;
}
std::size_t item(const RunPlan& run, const std::string& name) { return item(run.items, name); }

TEST(DeviceMemoryPlan, CountsWhatTheDeviceHolds) {
  DeviceBackend backend;
  const RunPlan run = plan_run(small_request(2), {.micro_batch_size = 2}, backend);
  EXPECT_EQ(item(run, "context and libraries"), 300 * kMiB);
  const std::size_t driver = item(run, "reserve for the driver");
  EXPECT_GT(driver, 0U);
  EXPECT_EQ(run.predicted_peak_bytes, 300 * kMiB + driver + 2 * kMiB + run.arena_bytes);
  EXPECT_EQ(item(run, "process, libraries, data index"), 0U);
  EXPECT_EQ(item(run, "loader buffers"), 0U);
  EXPECT_EQ(measured_peak_bytes(backend), 301 * kMiB);
}

TEST(DeviceMemoryPlan, TellsTheHostsPartBesideIt) {
  DeviceBackend backend;
  FitRequest request = small_request(2);
  request.budget_bytes = kGiB;
  request.host_budget_bytes = 7 * kGiB;
  const RunPlan run = fit(request, backend);
  EXPECT_TRUE(run.on_device);
  EXPECT_GT(run.host_peak_bytes, 2 * kLoaderBytesPerSample);
  EXPECT_EQ(run.host_budget_bytes, 7 * kGiB);
  EXPECT_EQ(run.resident_budget_bytes(), 7 * kGiB);
  const std::optional<PlanSummary> chosen = choose_plan(request, backend);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->on_device);
  EXPECT_GT(chosen->host_peak_bytes, 0U);
  EXPECT_EQ(chosen->host_budget_bytes, 7 * kGiB);

  ReferenceBackend near;
  request.host_budget_bytes = 0;
  request.budget_bytes = 4 * kGiB;
  const RunPlan on_host = fit(request, near);
  EXPECT_FALSE(on_host.on_device);
  EXPECT_EQ(on_host.host_peak_bytes, 0U);
  EXPECT_EQ(on_host.resident_budget_bytes(), 4 * kGiB);
}

TEST(DeviceMemoryPlan, ABudgetHoldsTheArenaAndWhatIsReserved) {
  DeviceBackend backend;
  FitRequest request = small_request(8);
  request.budget_bytes = plan_run(request, {.micro_batch_size = 8}, backend).predicted_peak_bytes;
  EXPECT_EQ(fit(request, backend).levers.micro_batch_size, 8);
  backend.reserved += 50 * kMiB;  // leaves less for the arena
  expect_error<BudgetError>([&] { fit(request, backend); }, {"--budget", "context and libraries", "350 MiB"});
  request.budget_bytes += 50 * kMiB;
  EXPECT_EQ(fit(request, backend).levers.micro_batch_size, 8);
}

// A model whose optimizer states are worth offloading, with a budget that is `missing` bytes too small otherwise.
FitRequest tight_request(std::size_t missing, Backend& backend) {
  FitRequest request = small_request(2);
  LabelledConfig config = layoutlmv3_preset("layoutlmv3-tiny");
  config.labels = {"O", "B-TOTAL", "I-TOTAL"};
  use_model(request, config);
  request.micro_batch_size = 2;
  request.recompute = RecomputeMode::kNone;
  request.update = UpdateMode::kAfterBackward;
  request.offload = OffloadTarget::kHost;
  request.host_budget_bytes = 4 * kGiB;
  request.budget_bytes = plan_run(request, {.micro_batch_size = 2}, backend).predicted_peak_bytes - missing;
  return request;
}

TEST(DeviceMemoryPlan, LetsTheHostTakeWhatTheDeviceHasNoRoomFor) {
  DeviceBackend backend;
  FitRequest request = tight_request(2 * kMiB, backend);
  const RunPlan run = fit(request, backend);
  EXPECT_GE(run.offload.bytes(), 2 * kMiB);
  EXPECT_EQ(run.offload_target, OffloadTarget::kHost);
  EXPECT_EQ(item(run.host_items, "offloaded tensors"), run.offload.bytes());
  EXPECT_EQ(item(run.host_items, "pinned transfer buffers"), 3 * kMiB);
  std::size_t sum = 0;
  for (const MemoryItem& each : run.host_items) sum += each.bytes;
  EXPECT_EQ(run.host_peak_bytes, sum);

  request.offload = OffloadTarget::kNone;
  expect_error<BudgetError>([&] { fit(request, backend); }, {"--budget", "without --offload none"});
}

TEST(DeviceMemoryPlan, LeavesTheHostsBudgetWhole) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  DeviceBackend backend;
  FitRequest request = tight_request(7 * kMiB, backend);
  const RunPlan generous = fit(request, backend);
  request.host_budget_bytes = generous.host_peak_bytes - generous.offload.bytes() + 3 * kMiB;
  // The refusal offers the host budget that is missing, and it is enough.
  const BudgetError error = [&] {
    try {
      fit(request, backend);
    } catch (const BudgetError& refused) {
      return refused;
    }
    throw std::logic_error("it fits");
  }();
  EXPECT_NE(error.problem().found.find("the smallest plan"), std::string::npos);
  const std::string& remedy = error.problem().remedy;
  const std::size_t at = remedy.find("--host-budget ");
  ASSERT_NE(at, std::string::npos) << remedy;
  constexpr std::size_t kGrowth = 4 * kMiB;  // growth of this process since the offer
  request.host_budget_bytes = std::stoull(remedy.substr(at + 14)) * kMiB + kGrowth;
  EXPECT_TRUE(fit(request, backend).fits());
  request.host_budget_bytes = 20 * kMiB;
  expect_error<BudgetError>([&] { fit(request, backend); }, {"--host-budget", "20.0 MiB", "loader buffers"});
}

TEST(DeviceMemorySession, TellsWhatIsHeldOnceAllIsLoaded) {
  DeviceBackend backend;
  FitRequest request = small_request(2);
  const RunPlan planned = plan_run(request, {.micro_batch_size = 2}, backend);
  const std::size_t reserve = item(planned, "reserve for the driver");
  ASSERT_GT(reserve, 10 * kMiB);
  const auto settled = [&](std::size_t more, std::size_t budget_bytes) {
    RunPlan run = plan_run(request, {.micro_batch_size = 2}, backend);
    run.budget_bytes = budget_bytes;
    backend.reserved += more;
    settle(run, backend);
    backend.reserved -= more;
    return run;
  };
  const RunPlan little = settled(10 * kMiB, planned.predicted_peak_bytes);
  EXPECT_EQ(item(little, "context and libraries"), 310 * kMiB);
  EXPECT_EQ(item(little, "reserve for the driver"), reserve - 10 * kMiB);
  EXPECT_EQ(little.predicted_peak_bytes, planned.predicted_peak_bytes);
  const RunPlan much = settled(reserve + 5 * kMiB, kGiB);
  EXPECT_EQ(item(much, "reserve for the driver"), 0U);
  EXPECT_EQ(much.predicted_peak_bytes, planned.predicted_peak_bytes + 5 * kMiB);
  expect_error<BudgetError>([&] { settled(reserve + 5 * kMiB, planned.predicted_peak_bytes); },
                            {"--budget", "libraries use more"});
}

}  // namespace
}  // namespace plimsoll::test
