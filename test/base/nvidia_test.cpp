// Tests NVML's answers through a table of functions that replace the library's.
#include "base/nvidia.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/bytes.h"

namespace plimsoll {
namespace {

int stops = 0;
char the_device = 0;

// A process in another container, which /proc does not know here, and this process.
constexpr unsigned int kStranger = 4'194'303 + 1;  // beyond Linux's largest process id

NvmlFunctions library() {
  NvmlFunctions f;
  f.init = [] { return 0; };
  f.shutdown = [] { return ++stops, 0; };
  f.error_text = [](int error) -> const char* { return error == 18 ? "Driver/library version mismatch" : "?"; };
  f.driver_version = [](char* text, unsigned int) { return std::strcpy(text, "550.54.14"), 0; };
  f.driver_cuda = [](int* version) { return *version = 12040, 0; };
  f.count = [](unsigned int* count) { return *count = 1, 0; };
  f.by_index = [](unsigned int, NvmlDevice* device) { return *device = &the_device, 0; };
  f.by_bus_id = [](const char* bus_id, NvmlDevice* device) {
    if (std::strcmp(bus_id, "0000:3B:00.0") != 0) return 6;
    return *device = &the_device, 0;
  };
  f.name = [](NvmlDevice, char* text, unsigned int) { return std::strcpy(text, "NVIDIA H100"), 0; };
  f.memory = [](NvmlDevice, NvmlMemory* memory) {
    *memory = {.total = 80 * kGiB, .free = 50 * kGiB, .used = 30 * kGiB};
    return 0;
  };
  f.capability = [](NvmlDevice, int* major, int* minor) { return *major = 9, *minor = 0, 0; };
  f.temperature = [](NvmlDevice, int, unsigned int* celsius) { return *celsius = 61, 0; };
  f.throttle_reasons = [](NvmlDevice, unsigned long long* reasons) { return *reasons = 0x1 | 0x4 | 0x40, 0; };
  f.ecc_errors = [](NvmlDevice, int, int, unsigned long long* errors) { return *errors = 2, 0; };
  f.processes = [](NvmlDevice, unsigned int* count, NvmlProcess* processes) {
    processes[0] = {.process_id = static_cast<unsigned int>(::getpid()), .used_bytes = 3 * kGiB};
    processes[1] = {.process_id = kStranger, .used_bytes = kNvmlUnknownBytes};
    *count = 2;
    return 0;
  };
  return f;
}

TEST(Nvml, TellsWhatAGpuIsAndWhoHoldsIt) {
  stops = 0;
  {
    const Nvml nvml(library());
    EXPECT_TRUE(nvml.exists());
    EXPECT_EQ(nvml.error(), "");
    EXPECT_EQ(nvml.driver_version(), "550.54.14");
    EXPECT_EQ(nvml.driver_cuda(), 12040);
    const std::vector<GpuFacts> gpus = nvml.gpus();
    ASSERT_EQ(gpus.size(), 1U);
    const GpuFacts& gpu = gpus[0];
    EXPECT_EQ(gpu.name, "NVIDIA H100");
    EXPECT_EQ(gpu.capability, 90);
    EXPECT_EQ(gpu.total_bytes, 80 * kGiB);
    EXPECT_EQ(gpu.free_bytes, 50 * kGiB);
    EXPECT_EQ(gpu.temperature_celsius, 61);
    EXPECT_EQ(gpu.uncorrected_errors, 2U);
    EXPECT_EQ(gpu.slowed_by, (std::vector<std::string>{"power limit", "too hot (hardware)"}));
    std::string own;
    std::ifstream("/proc/self/comm") >> own;
    EXPECT_EQ(holders_text(gpu.holders), own + " (process " + std::to_string(::getpid()) +
                                             ") 3.00 GiB, not visible from here (process 4194304) an unknown part");
  }
  EXPECT_EQ(stops, 1);
}

TEST(Nvml, AsksTheDriverForNamesThatProcDoesNotShow) {
  NvmlFunctions f = library();
  f.process_name = [](unsigned int id, char* text, unsigned int) {
    return id == kStranger ? (std::strcpy(text, "/usr/bin/python3"), 0) : 1;
  };
  const auto gpu = Nvml(f).memory_of("0000:3B:00.0");
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->holders.at(1).name, "/usr/bin/python3");
  EXPECT_NE(gpu->holders.at(0).name, "/usr/bin/python3");
}

TEST(Nvml, KnowsAGpuByItsPlace) {
  const Nvml nvml(library());
  ASSERT_TRUE(nvml.memory_of("0000:3B:00.0"));
  EXPECT_EQ(nvml.memory_of("0000:3B:00.0")->free_bytes, 50 * kGiB);
  EXPECT_FALSE(nvml.memory_of("0000:AF:00.0"));
}

TEST(Nvml, IsQuietWhereItIsMissingOldOrBroken) {
  const Nvml missing{NvmlFunctions{}};
  EXPECT_FALSE(missing.exists());
  EXPECT_TRUE(missing.gpus().empty());
  EXPECT_FALSE(missing.memory_of("0000:3B:00.0"));
  EXPECT_EQ(missing.driver_cuda(), 0);

  NvmlFunctions old;
  old.init = library().init;
  old.count = library().count;
  old.by_index = library().by_index;
  ASSERT_EQ(Nvml(old).gpus().size(), 1U);
  EXPECT_TRUE(Nvml(old).gpus()[0].holders.empty());
  EXPECT_FALSE(Nvml(old).memory_of("0000:3B:00.0"));

  stops = 0;
  NvmlFunctions broken = library();
  broken.init = [] { return 18; };
  {
    const Nvml nvml(broken);
    EXPECT_EQ(nvml.error(), "Driver/library version mismatch");
    EXPECT_TRUE(nvml.gpus().empty());
    EXPECT_EQ(nvml.driver_version(), "");
  }
  EXPECT_EQ(stops, 0) << "what did not start is not stopped";
}

TEST(GpuCode, RunsOnItsGenerationAndByPtxOnNewerOnes) {
  const GpuCode code = parse_architectures("75-real;80-real;90");
  EXPECT_EQ(code.binaries, (std::vector<int>{75, 80, 90}));
  EXPECT_EQ(code.ptx, 90);
  EXPECT_EQ(code.text(), "75, 80, 90, and PTX for those after 90");
  for (const int capability : {75, 80, 86, 89, 90}) EXPECT_TRUE(code.runs_on(capability, false)) << capability;
  for (const int capability : {70, 72}) EXPECT_FALSE(code.runs_on(capability, true)) << capability;
  EXPECT_TRUE(code.runs_on(120, true));
  EXPECT_FALSE(code.runs_on(120, false));
}

TEST(GpuCode, ReadsWhatCMakeTakes) {
  EXPECT_EQ(parse_architectures("80-virtual").binaries.size(), 0U);
  EXPECT_EQ(parse_architectures("80-virtual,90").ptx, 80);
  EXPECT_EQ(parse_architectures("90a").ptx, 0) << "PTX for 90a is for 9.0 alone";
  EXPECT_TRUE(parse_architectures("90a").runs_on(90, true));
  for (const char* unknown : {"native", "all-major", ""}) {
    EXPECT_TRUE(parse_architectures(unknown).runs_on(70, false)) << unknown;
  }
}

}  // namespace
}  // namespace plimsoll
