// Facts about NVIDIA GPUs from the driver's own library, NVML: their properties, their memory and the processes that
// hold it. The library is opened at run time, and the few declarations that are needed are repeated here, so that this
// program builds and runs without it. (NVML API reference.)
//
//   const Nvml nvml;
//   for (const GpuFacts& gpu : nvml.gpus()) use(gpu.name, gpu.free_bytes);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct HolderFacts {
  std::uint64_t process_id = 0;
  std::string name{};  // empty if not visible: another container, another user
  std::optional<std::uint64_t> bytes{};
};
// Returns "python (process 12) 3.00 GiB, not visible from here (process 13) an unknown part"; empty for none.
std::string holders_text(const std::vector<HolderFacts>& holders);

struct GpuFacts {
  std::string name{};
  std::uint64_t total_bytes = 0, free_bytes = 0;
  int capability = 0;  // 89: compute capability 8.9
  std::optional<int> temperature_celsius{};
  std::vector<std::string> slowed_by{};  // why its clocks are lower than they could be, other than idling
  std::uint64_t uncorrected_errors = 0;
  std::vector<HolderFacts> holders{};
};

// The GPU code in a program: binaries for some GPUs, and PTX, which the driver compiles for all newer ones.
struct GpuCode {
  std::vector<int> binaries{};  // 80, 90, …
  int ptx = 0;                  // the oldest GPU that PTX is for; 0: there is none

  // True if nothing is known. `compiles`: the driver is at least as new as the CUDA version that wrote the PTX.
  bool runs_on(int capability, bool compiles) const;
  // Returns "80, 90, and PTX for newer ones than 90".
  std::string text() const;
};
// Parses CMake's CUDA_ARCHITECTURES, separated by commas or semicolons: "75-real,80-real,90". The result is empty,
// which means unknown, if the list has a word such as "native".
GpuCode parse_architectures(std::string_view list);

// Formats 12040 as "12.4".
std::string cuda_version_text(int version);

using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlProcess {
  unsigned int process_id = 0;
  unsigned long long used_bytes = 0;
  unsigned int gpu_instance = 0, compute_instance = 0;
};
inline constexpr unsigned long long kNvmlUnknownBytes = ~0ULL;

// The library's functions; null if the library, or an older driver's version, lacks them. Each returns 0 for success.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned int) = nullptr;
  int (*driver_cuda)(int*) = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*by_index)(unsigned int, NvmlDevice*) = nullptr;
  int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned int) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*capability)(NvmlDevice, int*, int*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned int*) = nullptr;
  int (*throttle_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*ecc_errors)(NvmlDevice, int, int, unsigned long long*) = nullptr;
  int (*processes)(NvmlDevice, unsigned int*, NvmlProcess*) = nullptr;
  int (*process_name)(unsigned int, char*, unsigned int) = nullptr;
};
// Every function is null if libnvidia-ml.so.1 cannot be opened; the library stays open.
NvmlFunctions load_nvml();

class Nvml {
 public:
  explicit Nvml(const NvmlFunctions& functions = load_nvml());
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool exists() const { return functions_.init != nullptr; }
  // The error of its first call; empty: no error, or there is no library.
  const std::string& error() const { return error_; }
  std::string driver_version() const;  // "550.54.14"; empty if unknown
  int driver_cuda() const;             // the newest CUDA that the driver supports, as 12040; 0 if unknown
  std::vector<GpuFacts> gpus() const;
  // Returns the memory of the GPU at that PCI bus address ("0000:3B:00.0") and the processes that hold it; nothing if
  // NVML is missing or does not know the GPU.
  std::optional<GpuFacts> memory_of(const std::string& bus_id) const;

 private:
  bool works() const { return exists() && error_.empty(); }
  GpuFacts read(NvmlDevice device) const;
  void read_memory(NvmlDevice device, GpuFacts& gpu) const;

  NvmlFunctions functions_;
  std::string error_;
};

}  // namespace plimsoll
