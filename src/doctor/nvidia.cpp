// NVIDIA's driver, asked through its own libraries, opened at run time: this program runs where they are missing. The
// few declarations that are needed are repeated here, so that it also builds there. (NVML API reference; CUDA driver
// API.)
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <fstream>

#include "doctor/facts.h"

namespace plimsoll::doctor {
namespace {

class Library {
 public:
  explicit Library(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  explicit operator bool() const { return handle_ != nullptr; }
  // Null where an older driver lacks it.
  template <typename Function>
  Function* get(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  // Calls it; `missing` if it is not there.
  template <typename Function, typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = get<Function>(name);
    return function == nullptr ? kMissing : function(arguments...);
  }
  static constexpr int kMissing = -1;

 private:
  void* handle_;
};

using Device = void*;
struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;
};
struct ProcessInfo {
  unsigned int process_id = 0;
  unsigned long long used_bytes = 0;
  unsigned int gpu_instance = 0, compute_instance = 0;
};
constexpr unsigned long long kUnknownBytes = ~0ULL;

struct Reason {
  unsigned long long bit;
  const char* name;
};
// nvmlClocksThrottleReasons; "idle" and "as the application asked" are no reasons to worry.
constexpr Reason kReasons[] = {{0x4, "power limit"},
                               {0x8, "hardware slowdown"},
                               {0x20, "too hot (software)"},
                               {0x40, "too hot (hardware)"},
                               {0x80, "power brake"}};

std::string process_name(unsigned int id) {
  std::ifstream file(fmt::format("/proc/{}/comm", id));
  std::string name;
  std::getline(file, name);
  return name;
}

GpuFacts read_gpu(const Library& nvml, Device device) {
  GpuFacts gpu;
  std::array<char, 128> name{};
  nvml.call<int(Device, char*, unsigned int)>("nvmlDeviceGetName", device, name.data(),
                                              static_cast<unsigned int>(name.size() - 1));
  gpu.name = name.data();
  MemoryInfo memory;
  nvml.call<int(Device, MemoryInfo*)>("nvmlDeviceGetMemoryInfo", device, &memory);
  gpu.total_bytes = memory.total;
  gpu.free_bytes = memory.free;
  int major = 0, minor = 0;
  nvml.call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
  gpu.capability = major * 10 + minor;
  unsigned int celsius = 0;
  if (nvml.call<int(Device, int, unsigned int*)>("nvmlDeviceGetTemperature", device, 0, &celsius) == 0)
    gpu.temperature_celsius = static_cast<int>(celsius);
  unsigned long long reasons = 0;
  nvml.call<int(Device, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons);
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) != 0) gpu.slowed_by.emplace_back(reason.name);
  }
  unsigned long long errors = 0;  // uncorrected, since the driver was loaded
  if (nvml.call<int(Device, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors", device, 1, 0, &errors) == 0)
    gpu.uncorrected_errors = errors;
  std::array<ProcessInfo, 256> processes{};
  auto count = static_cast<unsigned int>(processes.size());
  const char* query = nvml.get<int()>("nvmlDeviceGetComputeRunningProcesses_v3") != nullptr
                          ? "nvmlDeviceGetComputeRunningProcesses_v3"
                          : "nvmlDeviceGetComputeRunningProcesses_v2";
  if (nvml.call<int(Device, unsigned int*, ProcessInfo*)>(query, device, &count, processes.data()) != 0) count = 0;
  for (unsigned int i = 0; i < count && i < processes.size(); ++i) {
    HolderFacts holder{processes[i].process_id, process_name(processes[i].process_id), {}};
    if (processes[i].used_bytes != kUnknownBytes) holder.bytes = processes[i].used_bytes;
    gpu.holders.push_back(std::move(holder));
  }
  return gpu;
}

void probe_nvml(Facts& facts) {
  const Library nvml("libnvidia-ml.so.1");
  facts.has_nvml = static_cast<bool>(nvml);
  if (!nvml) return;
  if (const int result = nvml.call<int()>("nvmlInit_v2"); result != 0) {
    auto* text = nvml.get<const char*(int)>("nvmlErrorString");
    facts.nvml_error =
        text != nullptr && result != Library::kMissing ? text(result) : fmt::format("NVML error {}", result);
    return;
  }
  std::array<char, 96> version{};
  nvml.call<int(char*, unsigned int)>("nvmlSystemGetDriverVersion", version.data(),
                                      static_cast<unsigned int>(version.size() - 1));
  facts.driver_version = version.data();
  nvml.call<int(int*)>("nvmlSystemGetCudaDriverVersion_v2", &facts.driver_cuda);
  unsigned int count = 0;
  nvml.call<int(unsigned int*)>("nvmlDeviceGetCount_v2", &count);
  for (unsigned int i = 0; i < count && i < 64; ++i) {
    Device device = nullptr;
    if (nvml.call<int(unsigned int, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &device) == 0)
      facts.gpus.push_back(read_gpu(nvml, device));
  }
  nvml.call<int()>("nvmlShutdown");
}

void probe_libcuda(Facts& facts) {
  const Library cuda("libcuda.so.1");
  facts.has_libcuda = static_cast<bool>(cuda);
  if (!cuda) return;
  int version = 0;
  if (cuda.call<int(int*)>("cuDriverGetVersion", &version) == 0) facts.driver_cuda = version;
  if (const int result = cuda.call<int(unsigned int)>("cuInit", 0U); result != 0) {
    const char* text = nullptr;
    cuda.call<int(int, const char**)>("cuGetErrorString", result, &text);
    facts.cuda_error = text != nullptr ? text : fmt::format("CUDA error {}", result);
  }
}

}  // namespace

void probe_driver(Facts& facts) {
  probe_nvml(facts);
  probe_libcuda(facts);
}

}  // namespace plimsoll::doctor
