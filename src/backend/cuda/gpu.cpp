#include "backend/cuda/gpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "backend/cuda/context.h"
#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"

namespace plimsoll::cuda {
namespace {

constexpr const char* kDoctor = "plimsoll doctor shows the driver, the devices and what is wrong with them";

NvmlFunctions find_nvml() {
#ifdef PLIMSOLL_CUDA_EMULATED
  return cuda_emulator::nvml();
#else
  return load_nvml();
#endif
}

std::string capability_text(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

int find_driver() {
  int driver = 0;
  const int runtime = runtime_version();
  check_cuda(cudaDriverGetVersion(&driver), "the driver's version");
  if (driver == 0) {
    throw NoDeviceError({.what = "there is no NVIDIA driver on this machine",
                         .where = "--device cuda",
                         .allowed = fmt::format("a driver for CUDA {} or newer", runtime / 1000),
                         .remedy = std::string("install one, or in a container pass --gpus all; ") + kDoctor});
  }
  // Within a major version an older driver runs programs of a newer CUDA.
  if (driver / 1000 < runtime / 1000) {
    throw EnvironmentError(
        {.what = "the NVIDIA driver is older than this program",
         .where = "--device cuda",
         .found = fmt::format("a driver for CUDA {}", cuda_version_text(driver)),
         .allowed = fmt::format("CUDA {} or newer, since this program is built with CUDA {}", runtime / 1000,
                                cuda_version_text(runtime)),
         .remedy = fmt::format("update the driver, or build with CUDA {}; {}", driver / 1000, kDoctor)});
  }
  return driver;
}

void check_index(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && index < count) return;
  const std::string asked = fmt::format("--device cuda:{}", index);
  if (error != cudaSuccess || count == 0) {
    throw NoDeviceError({.what = "the NVIDIA driver shows no GPU",
                         .where = asked,
                         .found = error == cudaSuccess ? "0 devices" : cudaGetErrorString(error),
                         .allowed = "a GPU that this process may use",
                         .remedy = std::string("see whether CUDA_VISIBLE_DEVICES hides it; ") + kDoctor});
  }
  throw EnvironmentError({.what = "there is no such GPU",
                          .where = asked,
                          .found = counted(count, "GPU"),
                          .allowed = count == 1 ? "cuda:0" : fmt::format("cuda:0 to cuda:{}", count - 1),
                          .remedy = "count from 0, among those that CUDA_VISIBLE_DEVICES leaves"});
}

}  // namespace

int runtime_version() {
  int version = 0;
  check_cuda(cudaRuntimeGetVersion(&version), "the runtime's version");
  return version;
}

int visible_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

GpuCode built_code() { return parse_architectures(PLIMSOLL_CUDA_ARCHITECTURES); }

Gpu::Gpu(int index) : nvml_(find_nvml()) {
  constexpr int kKeep = 0;
  ::setenv("CUDA_MODULE_LOADING", "EAGER", kKeep);
  driver_version_ = find_driver();
  check_index(index);
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), "the device's properties");
  name_ = properties.name;
  architecture_ = 10 * properties.major + properties.minor;
  shared_bytes_ = properties.sharedMemPerBlockOptin;
  cache_bytes_ = static_cast<std::size_t>(std::max(0, properties.l2CacheSize));
  processors_ = properties.multiProcessorCount;
  if (const GpuCode code = built_code(); !code.runs_on(architecture_, driver_version_ >= runtime_version())) {
    throw EnvironmentError(
        {.what = "this program holds no kernels for the GPU",
         .where = fmt::format("--device cuda:{}", index),
         .found = fmt::format("{}, compute capability {}", name_, capability_text(architecture_)),
         .allowed = fmt::format("what {} runs on", code.text()),
         .remedy = fmt::format("build with PLIMSOLL_CUDA_ARCHITECTURES={} scripts/build.sh{}", architecture_,
                               code.ptx > 0 && architecture_ > code.ptx ? ", or update the driver" : "")});
  }
  std::array<char, 32> bus_id{};
  check_cuda(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index), "the device's place");
  bus_id_ = bus_id.data();
  const std::optional<GpuFacts> before = nvml_.memory_of(bus_id_);
  check_cuda(cudaSetDevice(index), "the device");
  check_cuda(cudaFree(nullptr), "a context on the device");
  // On a divided GPU (MIG), NVML reports the whole GPU. Its total includes what the driver keeps for itself, half a
  // gigabyte or so, and the runtime's total does not.
  const std::size_t total = memory().total;
  const bool is_same = before && before->total_bytes / 8 <= total / 7;
  if (is_same) others_bytes_ = total - std::min<std::size_t>(before->free_bytes, total);
}

Gpu::Memory Gpu::memory() const {
  Memory memory;
  check_cuda(cudaMemGetInfo(&memory.free, &memory.total), "its free memory");
  return memory;
}

std::string Gpu::summary() const {
  const Memory now = memory();
  return fmt::format("{}, compute capability {}, driver for CUDA {}, built with CUDA {}, {} free of {}", name_,
                     capability_text(architecture_), cuda_version_text(driver_version_),
                     cuda_version_text(runtime_version()), format_bytes(now.free), format_bytes(now.total));
}

DeviceUse Gpu::use() const {
  const Memory now = memory();
  const std::size_t used = now.total - std::min(now.free, now.total);
  DeviceUse use{.held_bytes = used - std::min(used, others_bytes_), .free_bytes = now.free};
  if (const std::optional<GpuFacts> told = nvml_.memory_of(bus_id_)) {
    for (const HolderFacts& holder : told->holders) {
      if (holder.process_id == static_cast<std::uint64_t>(::getpid()) && holder.bytes) use.held_bytes = *holder.bytes;
    }
  }
  return use;
}

void Gpu::check_room(std::size_t bytes) const {
  const Memory now = memory();
  if (bytes <= now.free) return;
  std::vector<HolderFacts> others;
  if (const std::optional<GpuFacts> told = nvml_.memory_of(bus_id_)) others = told->holders;
  std::erase_if(others,
                [](const HolderFacts& holder) { return holder.process_id == static_cast<std::uint64_t>(::getpid()); });
  const std::string holders = holders_text(others);
  throw EnvironmentError(
      {.what = "the GPU has less free memory than the run is going to take",
       .where = name_,
       .found = fmt::format("{} to allocate; {} free of {}; held by {}", format_bytes(bytes), format_bytes(now.free),
                            format_bytes(now.total), holders.empty() ? "processes not visible from here" : holders),
       .allowed = fmt::format("{} or less", format_bytes(now.free)),
       .remedy =
           fmt::format("end what is not needed, or leave --budget out: the run is then planned for what is free")});
}

void Gpu::check_shared_memory(std::size_t bytes, std::string_view kernel, std::string_view remedy) const {
  if (bytes <= shared_bytes_) return;
  throw EnvironmentError(
      {.what = fmt::format("{} needs more shared memory than the GPU has for a block of threads", kernel),
       .where = fmt::format("{}, compute capability {}", name_, capability_text(architecture_)),
       .found = format_bytes(bytes),
       .allowed = fmt::format("{} or less", format_bytes(shared_bytes_)),
       .remedy = std::string(remedy)});
}

}  // namespace plimsoll::cuda
