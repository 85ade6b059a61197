// The GPU that a backend runs on, checked before anything runs on it: whether the driver and this build can use it, and
// how much memory it has.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "base/nvidia.h"

namespace plimsoll::cuda {

// Return the CUDA version that this program was built with, as 12040, and the GPUs that it has code for. Neither needs
// a GPU.
int runtime_version();
GpuCode built_code();
// Returns the number of GPUs that this process may use; 0 if there is no driver.
int visible_gpus();

class Gpu {
 public:
  // Opens device `index` in the driver's order and makes it the current one. Sets CUDA_MODULE_LOADING to EAGER if it is
  // not set: kernels are then loaded here, before memory is measured. Throws EnvironmentError if there is no such
  // device, or if the driver or this build is too old for it.
  explicit Gpu(int index);

  int architecture() const { return architecture_; }        // 75, 80, 90: the compute capability without its dot
  std::size_t cache_bytes() const { return cache_bytes_; }  // L2
  int processors() const { return processors_; }            // streaming multiprocessors that this process may use
  const std::string& name() const { return name_; }
  const std::string& bus_id() const { return bus_id_; }  // its PCI address
  // Returns "NVIDIA H100 80GB HBM3, compute capability 9.0, driver for CUDA 12.8, built with CUDA 12.6, 78.5 GiB free
  // of 79.2 GiB".
  std::string summary() const;
  // Returns the current use. What this process holds is NVML's number if NVML knows the process (in a container it may
  // not), else what is not free, less what others held at the beginning if NVML knew that.
  DeviceUse use() const;
  // Throws EnvironmentError, naming who holds the rest, unless this much is free now.
  void check_room(std::size_t bytes) const;
  // Throws EnvironmentError, with `kernel` and a remedy, if a block of threads cannot have this much shared memory.
  void check_shared_memory(std::size_t bytes, std::string_view kernel, std::string_view remedy) const;

 private:
  struct Memory {
    std::size_t free = 0, total = 0;
  };
  Memory memory() const;

  Nvml nvml_;
  std::string name_, bus_id_;
  int driver_version_ = 0, architecture_ = 0, processors_ = 0;
  std::size_t shared_bytes_ = 0;  // the most that a block of threads can have
  std::size_t cache_bytes_ = 0;
  std::size_t others_bytes_ = 0;  // held by others, before this process held anything
};

}  // namespace plimsoll::cuda
