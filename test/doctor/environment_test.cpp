// The report is a function of facts: here of machines that are not at hand.
#include "doctor/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"

namespace plimsoll::doctor {
namespace {

using testing::HasSubstr;

Facts healthy() {
  Facts f;
  f.processor = "A processor";
  f.cores = f.usable_cores = 16;
  f.features = {"avx2", "avx512f"};
  f.memory_bytes = 64 * kGiB;
  f.available_bytes = 60 * kGiB;
  f.shm_bytes = f.shm_free_bytes = 32 * kGiB;
  f.disks = {{"output", "/out", 100 * kGiB, 200 * kGiB}};
  return f;
}

Facts with_gpu() {
  Facts f = healthy();
  f.pci_device = f.device_node = f.has_nvml = f.has_libcuda = true;
  f.module_version = f.driver_version = "550.54.14";
  f.driver_cuda = 12040;
  GpuFacts gpu;
  gpu.name = "NVIDIA H100";
  gpu.total_bytes = 80 * kGiB;
  gpu.free_bytes = 79 * kGiB;
  gpu.capability = 90;
  f.gpus = {gpu};
  return f;
}

std::vector<Check> bad(const Facts& facts) {
  std::vector<Check> checks = examine(facts);
  std::erase_if(checks, [](const Check& check) { return check.state == State::kOk; });
  return checks;
}

void expect_one(const Facts& facts, State state, const std::string& found, const std::string& remedy,
                bool needed = false) {
  const std::vector<Check> checks = bad(facts);
  ASSERT_EQ(checks.size(), 1U) << found;
  EXPECT_EQ(checks[0].state, state);
  EXPECT_THAT(checks[0].found, HasSubstr(found));
  EXPECT_THAT(checks[0].remedy, HasSubstr(remedy));
  EXPECT_EQ(checks[0].needed, needed);
}

TEST(Environment, HealthyMachinesAreOk) {
  EXPECT_TRUE(bad(healthy()).empty());
  EXPECT_TRUE(bad(with_gpu()).empty());
  EXPECT_GE(examine(healthy()).size(), 5U);
}

TEST(Environment, HostMemoryAndItsLimits) {
  Facts f = healthy();
  f.available_bytes = kGiB;
  expect_one(f, State::kWarning, "1.00 GiB available", "plan --budget");
  f.available_bytes = 100 * kMiB;
  expect_one(f, State::kBroken, "100 MiB available", "close other programs", true);
  f = healthy();
  f.cgroup_limit_bytes = 16 * kGiB;
  f.cgroup_used_bytes = 2 * kGiB;
  EXPECT_TRUE(bad(f).empty());
  f.cgroup_used_bytes = 16 * kGiB - 1;
  expect_one(f, State::kWarning, "16.0 GiB", "docker run --memory");
  f = healthy();
  f.cgroup_oom_kills = 3;
  expect_one(f, State::kWarning, "3 process", "137");
  f = healthy();
  f.shm_bytes = f.shm_free_bytes = 64 * kMiB;
  expect_one(f, State::kWarning, "64.0 MiB free", "--shm-size");
  f = healthy();
  f.disks[0].free_bytes = kMiB;
  expect_one(f, State::kBroken, "/out", "free some space", true);
}

TEST(Environment, DriversThatAreNotThere) {
  Facts f = healthy();
  f.pci_device = true;
  expect_one(f, State::kBroken, "no driver is installed", "install NVIDIA's driver");
  f.nouveau = true;
  expect_one(f, State::kBroken, "nouveau", "reboot");
  f = healthy();
  f.pci_device = f.device_node = true;
  expect_one(f, State::kBroken, "libcuda.so.1", "--gpus all");
  f.built_cuda = 12040;  // then Plimsoll itself needs it
  expect_one(f, State::kBroken, "libcuda.so.1", "--gpus all", true);
}

TEST(Environment, DriversThatDoNotMatch) {
  Facts f = with_gpu();
  f.module_version = "535.1.2";
  expect_one(f, State::kBroken, "module 535.1.2, the libraries are 550.54.14", "reboot");
  f = with_gpu();
  f.gpus.clear();
  f.nvml_error = "Driver/library version mismatch";
  f.driver_version.clear();
  expect_one(f, State::kBroken, "mismatch", "reboot");
  f = with_gpu();
  f.cuda_error = "unknown error";
  expect_one(f, State::kBroken, "unknown error", "nvidia_uvm");
}

TEST(Environment, RuntimesThatTheDriverDoesNotServe) {
  Facts f = with_gpu();
  f.libraries = {{"cudart", "13.0.48", "/usr/local/cuda/lib64/libcudart.so.13"}};
  expect_one(f, State::kBroken, "serves 12.4", "580.65.06");
  f.libraries[0].version = "12.8.57";  // the same generation
  EXPECT_TRUE(bad(f).empty());
  f.libraries[0].version = "11.8.89";
  EXPECT_TRUE(bad(f).empty());
  f.libraries.clear();
  f.built_cuda = 13000;
  f.code.binaries = {80, 90};
  expect_one(f, State::kBroken, "built with 13.0", "580.65.06", true);
}

TEST(Environment, ArchitecturesInTheBinary) {
  Facts f = with_gpu();
  f.built_cuda = 12040;
  f.code.binaries = {80, 90};
  EXPECT_TRUE(bad(f).empty());
  f.gpus[0].capability = 89;  // 8.0 runs on 8.9
  EXPECT_TRUE(bad(f).empty());
  f.gpus[0].capability = 75;
  expect_one(f, State::kBroken, "80, 90, not for 75", "ARCHITECTURES=75", true);
  f.gpus[0].capability = 120;
  expect_one(f, State::kBroken, "not for 120", "ARCHITECTURES=120", true);
  f.code.ptx = 90;  // which the driver compiles, unless it is older
  EXPECT_TRUE(bad(f).empty());
  f.built_cuda = 12080;
  expect_one(f, State::kBroken, "80, 90, and PTX for those after 90, not for 120", "ARCHITECTURES=120", true);
}

TEST(Environment, DuplicateLibraries) {
  Facts f = with_gpu();
  f.libraries = {{"cublas", "12.4.5.8", "/a/libcublas.so.12"}, {"cublas", "11.11.3.6", "/b/libcublas.so.11"}};
  expect_one(f, State::kWarning, "2 versions", "LD_LIBRARY_PATH");
  f.libraries[1] = {"nccl", "2.20.5", "/b/libnccl.so.2"};
  EXPECT_TRUE(bad(f).empty());
}

TEST(Environment, WhoHoldsTheDevice) {
  Facts f = with_gpu();
  f.gpus[0].free_bytes = 20 * kGiB;
  f.gpus[0].holders = {{4711, "python3", 59 * kGiB}};
  expect_one(f, State::kWarning, "python3 (process 4711) 59.0 GiB", "plan for what is free");
  f.gpus[0].free_bytes = 0;
  f.gpus[0].holders.clear();
  expect_one(f, State::kBroken, "not visible from here", "nvidia-smi");
  f = with_gpu();
  f.gpus[0].slowed_by = {"power limit"};
  f.gpus[0].temperature_celsius = 91;
  expect_one(f, State::kWarning, "power limit (91 °C)", "cooling");
  f = with_gpu();
  f.gpus[0].uncorrected_errors = 2;
  expect_one(f, State::kBroken, "2 uncorrected", "reset");
  f = with_gpu();
  f.visible_devices = "";
  expect_one(f, State::kWarning, "CUDA_VISIBLE_DEVICES", "unset");
}

TEST(Environment, ThisMachineCanBeProbed) {
  const Facts f = probe(".");
  EXPECT_GE(f.cores, f.usable_cores);
  EXPECT_GE(f.usable_cores, 1);
  EXPECT_GT(f.memory_bytes, 0U);
  EXPECT_FALSE(f.disks.empty());
  EXPECT_GE(examine(f).size(), 4U);
}

}  // namespace
}  // namespace plimsoll::doctor
