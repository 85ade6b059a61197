// The facts about a machine that matter before training on it: a plain struct, so that reports can be tested for
// machines that are not available. `probe` fills it; it needs no GPU, driver or privileges, and never throws for what
// it cannot see.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/nvidia.h"

namespace plimsoll::doctor {

struct LibraryFacts {
  std::string name{};     // "cudart", "cublas", "cudnn", "nccl"
  std::string version{};  // as its file name says, "12.4.127"
  std::string path{};
};

struct DiskFacts {
  std::string what_for{}, path{};
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

struct Facts {
  // Processor.
  std::string processor{};
  int cores = 0, usable_cores = 0;
  std::vector<std::string> features{};  // flags of /proc/cpuinfo

  // Host memory.
  std::uint64_t memory_bytes = 0, available_bytes = 0, swap_bytes = 0, swap_free_bytes = 0;
  std::optional<std::uint64_t> cgroup_limit_bytes{}, cgroup_used_bytes{};
  std::optional<std::uint64_t> cgroup_oom_kills{};
  std::optional<std::uint64_t> address_space_limit_bytes{};  // ulimit -v
  std::optional<std::uint64_t> shm_bytes{}, shm_free_bytes{};
  std::vector<DiskFacts> disks{};

  // NVIDIA. Versions of CUDA as CUDA writes them: 12040 is 12.4.
  bool pci_device = false;   // an NVIDIA GPU on the bus
  bool device_node = false;  // /dev/nvidiactl, or /dev/dxg under WSL
  bool nouveau = false;      // the other kernel driver, which cannot compute
  bool wsl = false;
  std::string module_version{};                // of the kernel module that is loaded, "550.54.14"
  bool has_nvml = false, has_libcuda = false;  // libnvidia-ml.so.1, libcuda.so.1 can be opened
  std::string nvml_error{}, cuda_error{};      // the error of their first call; empty: none
  std::string driver_version{};                // of the libraries, "550.54.14"
  int driver_cuda = 0;                         // the newest CUDA that the driver serves
  std::vector<GpuFacts> gpus{};
  std::vector<LibraryFacts> libraries{};         // in the order in which a program would find them
  std::optional<std::string> visible_devices{};  // CUDA_VISIBLE_DEVICES

  // This program.
  int built_cuda = 0;  // 0: built without CUDA
  GpuCode code{};
};

// `directory` is where a run would write.
Facts probe(const std::filesystem::path& directory);

// Fills the NVIDIA driver's part of `facts` by opening its libraries at run time (nvidia.cpp).
void probe_driver(Facts& facts);

// Finds CUDA's libraries on this machine's library path, beside Python's packages and where the toolkit installs them.
std::vector<LibraryFacts> find_cuda_libraries();

}  // namespace plimsoll::doctor
