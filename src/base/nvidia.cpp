#include "base/nvidia.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include "base/bytes.h"

namespace plimsoll {
namespace {

struct Reason {
  unsigned long long bit;
  const char* name;
};
// Bits of nvmlClocksThrottleReasons; "idle" and "requested by the application" are no cause for concern.
constexpr Reason kReasons[] = {{0x4, "power limit"},
                               {0x8, "hardware slowdown"},
                               {0x20, "too hot (software)"},
                               {0x40, "too hot (hardware)"},
                               {0x80, "power brake"}};

// Calls a function that may be missing and returns its result.
template <typename... Parameters, typename... Arguments>
bool succeeds(int (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == 0;
}

template <std::size_t kSize>
unsigned int room(const std::array<char, kSize>&) {
  return static_cast<unsigned int>(kSize - 1);
}

}  // namespace

std::string holders_text(const std::vector<HolderFacts>& holders) {
  std::vector<std::string> texts;
  for (const HolderFacts& holder : holders) {
    texts.push_back(fmt::format("{} (process {}) {}", holder.name.empty() ? "not visible from here" : holder.name,
                                holder.process_id, holder.bytes ? format_bytes(*holder.bytes) : "an unknown part"));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool GpuCode::runs_on(int capability, bool compiles) const {
  if (binaries.empty() && ptx == 0) return true;
  // A kernel for 8.0 runs on 8.6 and 8.9, but not on 9.0 or 7.5.
  return std::any_of(binaries.begin(), binaries.end(),
                     [&](int built) { return built / 10 == capability / 10 && built <= capability; }) ||
         (compiles && ptx > 0 && ptx <= capability);
}

std::string GpuCode::text() const {
  std::string text = fmt::format("{}", fmt::join(binaries, ", "));
  if (ptx > 0) text += fmt::format("{}PTX for those after {}", text.empty() ? "" : ", and ", ptx);
  return text;
}

GpuCode parse_architectures(std::string_view list) {
  GpuCode code;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(",;"), list.size());
    const std::string_view word = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    int number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc()) return {};
    // "90a" runs on 9.0 only, and so does its PTX, so neither counts for other GPUs.
    const std::string_view kind(rest, static_cast<std::size_t>(word.data() + word.size() - rest));
    const bool is_special = !kind.empty() && kind.front() != '-';
    if (!kind.ends_with("-virtual")) code.binaries.push_back(number);
    if (!kind.ends_with("-real") && !is_special && (code.ptx == 0 || number < code.ptx)) code.ptx = number;
  }
  return code;
}

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

NvmlFunctions load_nvml() {
  NvmlFunctions f;
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return f;
  const auto find = [library]<typename Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
  };
  find(f.init, "nvmlInit_v2");
  find(f.shutdown, "nvmlShutdown");
  find(f.error_text, "nvmlErrorString");
  find(f.driver_version, "nvmlSystemGetDriverVersion");
  find(f.driver_cuda, "nvmlSystemGetCudaDriverVersion_v2");
  find(f.count, "nvmlDeviceGetCount_v2");
  find(f.by_index, "nvmlDeviceGetHandleByIndex_v2");
  find(f.by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  find(f.name, "nvmlDeviceGetName");
  find(f.memory, "nvmlDeviceGetMemoryInfo");
  find(f.capability, "nvmlDeviceGetCudaComputeCapability");
  find(f.temperature, "nvmlDeviceGetTemperature");
  find(f.throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(f.ecc_errors, "nvmlDeviceGetTotalEccErrors");
  find(f.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (f.processes == nullptr) find(f.processes, "nvmlDeviceGetComputeRunningProcesses_v2");
  find(f.process_name, "nvmlSystemGetProcessName");
  return f;
}

Nvml::Nvml(const NvmlFunctions& functions) : functions_(functions) {
  if (!exists()) return;
  const int result = functions_.init();
  if (result == 0) return;
  error_ = functions_.error_text != nullptr ? functions_.error_text(result) : fmt::format("NVML error {}", result);
}

Nvml::~Nvml() {
  if (works() && functions_.shutdown != nullptr) functions_.shutdown();
}

std::string Nvml::driver_version() const {
  std::array<char, 96> version{};
  if (works()) succeeds(functions_.driver_version, version.data(), room(version));
  return version.data();
}

int Nvml::driver_cuda() const {
  int version = 0;
  return works() && succeeds(functions_.driver_cuda, &version) ? version : 0;
}

std::vector<GpuFacts> Nvml::gpus() const {
  std::vector<GpuFacts> gpus;
  unsigned int count = 0;
  if (!works() || !succeeds(functions_.count, &count)) return gpus;
  for (unsigned int i = 0; i < std::min(count, 64U); ++i) {
    NvmlDevice device = nullptr;
    if (succeeds(functions_.by_index, i, &device)) gpus.push_back(read(device));
  }
  return gpus;
}

std::optional<GpuFacts> Nvml::memory_of(const std::string& bus_id) const {
  NvmlDevice device = nullptr;
  if (!works() || !succeeds(functions_.by_bus_id, bus_id.c_str(), &device)) return std::nullopt;
  GpuFacts gpu;
  read_memory(device, gpu);
  return gpu;
}

void Nvml::read_memory(NvmlDevice device, GpuFacts& gpu) const {
  NvmlMemory memory;
  succeeds(functions_.memory, device, &memory);
  gpu.total_bytes = memory.total;
  gpu.free_bytes = memory.free;
  std::array<NvmlProcess, 256> processes{};
  auto count = static_cast<unsigned int>(processes.size());
  if (!succeeds(functions_.processes, device, &count, processes.data())) count = 0;
  for (unsigned int i = 0; i < count && i < processes.size(); ++i) {
    HolderFacts holder{processes[i].process_id, {}, {}};
    std::ifstream file(fmt::format("/proc/{}/comm", holder.process_id));
    std::array<char, 256> path{};
    if (!std::getline(file, holder.name) &&
        succeeds(functions_.process_name, processes[i].process_id, path.data(), room(path))) {
      holder.name = path.data();
    }
    if (processes[i].used_bytes != kNvmlUnknownBytes) holder.bytes = processes[i].used_bytes;
    gpu.holders.push_back(std::move(holder));
  }
}

GpuFacts Nvml::read(NvmlDevice device) const {
  GpuFacts gpu;
  std::array<char, 128> name{};
  succeeds(functions_.name, device, name.data(), room(name));
  gpu.name = name.data();
  int major = 0, minor = 0;
  succeeds(functions_.capability, device, &major, &minor);
  gpu.capability = major * 10 + minor;
  unsigned int celsius = 0;
  constexpr int kGpuSensor = 0;
  if (succeeds(functions_.temperature, device, kGpuSensor, &celsius)) {
    gpu.temperature_celsius = static_cast<int>(celsius);
  }
  unsigned long long reasons = 0;
  succeeds(functions_.throttle_reasons, device, &reasons);
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) != 0) gpu.slowed_by.emplace_back(reason.name);
  }
  unsigned long long errors = 0;
  constexpr int kUncorrected = 1, kSinceLoad = 0;
  if (succeeds(functions_.ecc_errors, device, kUncorrected, kSinceLoad, &errors)) gpu.uncorrected_errors = errors;
  read_memory(device, gpu);
  return gpu;
}

}  // namespace plimsoll
