// Tests default budgets on devices that have their own memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "base/process.h"
#include "request/memory.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

class SomeBackend final : public Backend {
 public:
  explicit SomeBackend(std::optional<DeviceUse> use) : use_(use) {}
  std::string_view name() const override { return "some"; }
  std::unique_ptr<Kernel> prepare(const Graph&, const Node&) override { return nullptr; }
  std::unique_ptr<DeviceMemory> allocate(std::size_t) override { return nullptr; }
  std::optional<DeviceUse> device_use() override { return use_; }
  std::optional<TransferSpeed> offload_speed() override {
    return use_ ? std::optional(TransferSpeed{.read_bytes_per_second = 2e10, .write_bytes_per_second = 1e10})
                : std::nullopt;
  }

 private:
  std::optional<DeviceUse> use_;
};

TEST(DeviceBudgets, AreWhatIsHeldAndMostOfWhatIsFree) {
  SomeBackend device({{.held_bytes = kGiB, .free_bytes = 40 * kGiB}});
  MemoryRequest memory;
  resolve_device_memory(memory, device);
  EXPECT_EQ(memory.budget_bytes, 39 * kGiB);
  EXPECT_EQ(resolve_budget(memory), 39 * kGiB);
  EXPECT_GT(memory.host_budget_bytes, resident_bytes() / 2);
}

TEST(DeviceBudgets, ThatWereGivenStay) {
  SomeBackend device({{.held_bytes = kGiB, .free_bytes = 40 * kGiB}});
  MemoryRequest memory;
  memory.budget_bytes = 5 * kGiB;
  memory.host_budget_bytes = 6 * kGiB;
  resolve_device_memory(memory, device);
  EXPECT_EQ(memory.budget_bytes, 5 * kGiB);
  EXPECT_EQ(memory.host_budget_bytes, 6 * kGiB);
}

TEST(DeviceBudgets, OfTheHostAreOne) {
  SomeBackend host(std::nullopt);
  MemoryRequest memory;
  resolve_device_memory(memory, host);
  EXPECT_EQ(memory.budget_bytes, 0U);  // decided later, as ever
  EXPECT_EQ(memory.host_budget_bytes, 0U);
  memory.host_budget_bytes = kGiB;
  expect_error<UsageError>([&] { resolve_device_memory(memory, host); },
                           {"--host-budget", "1.00 GiB", "--device cuda"});
}

// A machine of 8 GiB, whose process is in a group of 400 MiB inside another group.
class LimitedBudgets : public testing::Test {
 protected:
  LimitedBudgets() {
    write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\n");
    write("proc/self/cgroup", "0::/job/step\n");
    write("sys/fs/cgroup/job/memory.max", "419430400\n");
    write("sys/fs/cgroup/job/step/memory.max", "max\n");
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  // Returns the messages on standard error for an accepted budget.
  std::string resolve(std::size_t budget, bool plans_only) {
    MemoryRequest memory;
    memory.budget_bytes = budget;
    memory.plans_only = plans_only;
    memory.root = folder_.path();
    testing::internal::CaptureStderr();
    try {
      resolve_device_memory(memory, host_);
    } catch (...) {
      testing::internal::GetCapturedStderr();
      throw;
    }
    return testing::internal::GetCapturedStderr();
  }
  SomeBackend host_{std::nullopt};
  ScratchFolder folder_;
};

TEST_F(LimitedBudgets, AboveTheCgroupsLimitAreRefused) {
  EXPECT_EQ(resolve(400 * kMiB, false), "");
  expect_error<BudgetError>([&] { resolve(401 * kMiB, false); }, {"--budget", "401 MiB", "job", "400 MiB", "Slurm"});
  // A plan may be made for another machine.
  EXPECT_NE(resolve(401 * kMiB, true).find("would be refused"), std::string::npos);
}

TEST_F(LimitedBudgets, AboveTheMachinesMemoryDrawAWarning) {
  write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(resolve(8 * kGiB, false), "");
  EXPECT_NE(resolve(9 * kGiB, false).find("exceeds the machine's memory of 8.00 GiB"), std::string::npos);
}

TEST(DeviceOffload, GoesToTheHostUnlessItIsForbidden) {
  SomeBackend device({{.held_bytes = kGiB, .free_bytes = 40 * kGiB}}), host(std::nullopt);
  MemoryRequest memory;
  resolve_device_memory(memory, device);
  EXPECT_EQ(memory.offload, OffloadTarget::kHost);
  EXPECT_EQ(memory.host_speed.write_bytes_per_second, 1e10);

  memory = MemoryRequest();
  memory.forbids_offload = true;
  resolve_device_memory(memory, device);
  EXPECT_EQ(memory.offload, OffloadTarget::kNone);

  memory = MemoryRequest();
  memory.offload = OffloadTarget::kFile;
  memory.offload_directory = "/somewhere";
  resolve_device_memory(memory, host);
  EXPECT_EQ(memory.offload, OffloadTarget::kFile);
  expect_error<UsageError>([&] { resolve_device_memory(memory, device); }, {"--offload", "/somewhere", "none"});
}

}  // namespace
}  // namespace plimsoll::test
