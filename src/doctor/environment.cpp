#include "doctor/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/bytes.h"
#include "base/counted.h"

namespace plimsoll::doctor {
namespace {

// The oldest driver on Linux for each generation of CUDA (CUDA's release notes, "minor version compatibility").
struct DriverNeed {
  int major;
  const char* driver;
};
constexpr DriverNeed kDriverNeeds[] = {{11, "450.80.02"}, {12, "525.60.13"}, {13, "580.65.06"}};

const char* driver_needed(int cuda_major) {
  for (const DriverNeed& need : kDriverNeeds) {
    if (need.major == cuda_major) return need.driver;
  }
  return "the newest";
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Examination {
 public:
  explicit Examination(const Facts& facts) : f(facts) {}

  std::vector<Check> run() {
    processor();
    memory();
    shared_memory();
    disks();
    driver();
    runtime();
    libraries();
    for (std::size_t i = 0; i < f.gpus.size(); ++i) gpu(i);
    return std::move(checks_);
  }

 private:
  void say(std::string topic, State state, std::string found, std::string remedy = {}, bool needed = false) {
    checks_.push_back({std::move(topic), state, std::move(found), std::move(remedy), needed});
  }
  // A program that was built without CUDA cannot use a GPU.
  bool uses_gpu() const { return f.built_cuda > 0; }

  void processor() {
    std::string features;
    for (const char* name : {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "sve", "bf16"}) {
      if (has(f.features, name)) features += fmt::format("{}{}", features.empty() ? "" : ", ", name);
    }
    const std::string found =
        fmt::format("{}; {} of {} may be used; {}", f.processor, f.usable_cores, counted(f.cores, "thread"),
                    features.empty() ? "no wide vectors known here" : features);
    if (f.usable_cores < f.cores) {
      return say(
          "processor", State::kOk, found,
          "affinity or a cgroup's CPU quota leaves fewer threads than the machine has: docker run --cpus, taskset");
    }
    say("processor", State::kOk, found);
  }

  void memory() {
    const std::string found = fmt::format(
        "{} available of {}, swap {}", format_bytes(f.available_bytes), format_bytes(f.memory_bytes),
        f.swap_bytes == 0 ? "none" : format_bytes(f.swap_free_bytes) + " free of " + format_bytes(f.swap_bytes));
    if (f.available_bytes < kGiB / 4) {
      say("memory", State::kBroken, found, "close other programs; nothing can be trained in so little", true);
    } else if (f.available_bytes < 2 * kGiB) {
      say("memory", State::kWarning, found,
          "little for LayoutLMv3-base: see `plimsoll plan --budget`, or close other programs");
    } else {
      say("memory", State::kOk, found);
    }
    if (f.cgroup_limit_bytes) {
      const std::uint64_t used = f.cgroup_used_bytes.value_or(0), limit = *f.cgroup_limit_bytes;
      const bool tight = used + kGiB / 2 > limit;
      say("memory limit", tight ? State::kWarning : State::kOk,
          fmt::format("a cgroup allows {}, {} used (the page cache counts too)", format_bytes(limit),
                      format_bytes(used)),
          tight ? "raise it: docker run --memory, Kubernetes resources.limits.memory, Slurm --mem" : "");
    }
    if (f.cgroup_oom_kills.value_or(0) > 0) {
      say("memory limit", State::kWarning,
          fmt::format("the kernel has killed {} of this cgroup for memory", counted(*f.cgroup_oom_kills, "process")),
          "a run that ended with \"Killed\" or code 137 ended so: raise the limit, or pass --budget");
    }
    if (f.address_space_limit_bytes) {
      say("memory limit", State::kWarning, fmt::format("ulimit -v is {}", format_bytes(*f.address_space_limit_bytes)),
          "CUDA reserves address space far beyond what it uses: ulimit -v unlimited");
    }
  }

  void shared_memory() {
    if (!f.shm_bytes) {
      return say("/dev/shm", State::kWarning, "missing",
                 "PyTorch's DataLoader with workers needs it (Plimsoll does not): mount a tmpfs there");
    }
    const std::string found =
        fmt::format("{} free of {}", format_bytes(f.shm_free_bytes.value_or(0)), format_bytes(*f.shm_bytes));
    if (f.shm_free_bytes.value_or(0) < kGiB) {
      return say("/dev/shm", State::kWarning, found,
                 "PyTorch's DataLoader workers may die with \"Bus error\" (Plimsoll uses none): docker run "
                 "--shm-size=8g or --ipc=host; in "
                 "Kubernetes an emptyDir of medium Memory");
    }
    say("/dev/shm", State::kOk, found);
  }

  void disks() {
    for (const DiskFacts& disk : f.disks) {
      const std::string topic = "disk",
                        found = fmt::format("{}: {} free of {} ({})", disk.path, format_bytes(disk.free_bytes),
                                            format_bytes(disk.total_bytes), disk.what_for);
      if (disk.free_bytes < 64 * kMiB) {
        say(topic, State::kBroken, found, "free some space, or name another directory", disk.what_for == "output");
      } else if (disk.free_bytes < 4 * kGiB) {
        say(topic, State::kWarning, found,
            "a checkpoint of LayoutLMv3-base with its optimizer takes 1.5 GiB: free some space, or pass "
            "--save-total-limit");
      } else {
        say(topic, State::kOk, found);
      }
    }
  }

  void driver() {
    const bool needed = uses_gpu();
    const bool gpu_there = f.pci_device || f.device_node;
    if (!f.has_nvml && !f.has_libcuda) {
      if (f.nouveau) {
        return say("driver", State::kBroken, "an NVIDIA GPU runs under the nouveau driver, which has no CUDA",
                   "install NVIDIA's driver (Debian: nvidia-driver; Ubuntu: ubuntu-drivers install) and reboot",
                   needed);
      }
      if (gpu_there) {
        return say("driver", State::kBroken,
                   f.device_node ? "a GPU's device files are here, but not the driver's libraries (libcuda.so.1)"
                                 : "an NVIDIA GPU is on the bus, but no driver is installed",
                   f.device_node ? "in a container: start it with --gpus all and NVIDIA's container toolkit on the host"
                                 : "install NVIDIA's driver and reboot",
                   needed);
      }
      return say("GPU", uses_gpu() ? State::kWarning : State::kOk,
                 "no NVIDIA driver found; this program trains on the processor",
                 uses_gpu()
                     ? "if there should be one: docker run --gpus all; Slurm --gres=gpu:1; a cloud machine's type"
                     : "");
    }
    const std::string versions = fmt::format("driver {}, serves CUDA up to {}",
                                             f.driver_version.empty() ? "of unknown version" : f.driver_version,
                                             f.driver_cuda > 0 ? cuda_version_text(f.driver_cuda) : "?");
    if (!f.module_version.empty() && !f.driver_version.empty() && f.module_version != f.driver_version) {
      return say("driver", State::kBroken,
                 fmt::format("the kernel runs module {}, the libraries are {}", f.module_version, f.driver_version),
                 "the driver was updated under a running system: reboot; in a container, remove driver libraries from "
                 "its image",
                 needed);
    }
    if (f.nvml_error.find("mismatch") != std::string::npos) {
      return say(
          "driver", State::kBroken,
          fmt::format("{} (kernel module {})", f.nvml_error, f.module_version.empty() ? "unknown" : f.module_version),
          "the driver was updated under a running system: reboot; in a container, remove driver libraries from its "
          "image",
          needed);
    }
    if (!f.nvml_error.empty() || !f.cuda_error.empty()) {
      const std::string& error = f.cuda_error.empty() ? f.nvml_error : f.cuda_error;
      if (f.visible_devices && f.gpus.empty() == false) {
        return say(
            "driver", State::kBroken,
            fmt::format("{}; CUDA says \"{}\" with CUDA_VISIBLE_DEVICES={}", versions, error, *f.visible_devices),
            "unset CUDA_VISIBLE_DEVICES, or name a GPU that is there", needed);
      }
      const char* remedy = f.device_node
                               ? "after suspend: sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm; with Xid "
                                 "errors in dmesg: reboot; NVSwitch machines: start nvidia-fabricmanager"
                               : "no /dev/nvidia*: in a container start it with --gpus all; on a host run nvidia-smi "
                                 "as root once, or nvidia-modprobe";
      return say("driver", State::kBroken, fmt::format("{}; it says \"{}\"", versions, error), remedy, needed);
    }
    say("driver", State::kOk, versions);
    if (f.visible_devices && (f.visible_devices->empty() || *f.visible_devices == "-1")) {
      say("GPU", State::kWarning,
          fmt::format("CUDA_VISIBLE_DEVICES is \"{}\": programs see no GPU", *f.visible_devices),
          "unset CUDA_VISIBLE_DEVICES", false);
    }
  }

  void compare_runtime(const std::string& what, int runtime, bool needed) {
    const int runtime_major = runtime / 1000, driver_major = f.driver_cuda / 1000;
    const std::string found = fmt::format("{} {}; the driver ({}) serves {}", what, cuda_version_text(runtime),
                                          f.driver_version, cuda_version_text(f.driver_cuda));
    if (runtime_major > driver_major) {
      return say("CUDA", State::kBroken, found,
                 fmt::format("CUDA {} needs driver {} or newer: update the driver, or install PyTorch built for CUDA "
                             "{} (pip --index-url "
                             "https://download.pytorch.org/whl/cu{}…)",
                             runtime_major, driver_needed(runtime_major), driver_major, driver_major),
                 needed);
    }
    if (runtime > f.driver_cuda) {
      return say("CUDA", State::kOk, found + " (the same generation: works, except for code compiled at run time)");
    }
    say("CUDA", State::kOk, found);
  }

  void runtime() {
    if (f.driver_cuda == 0) return;
    if (f.built_cuda > 0) compare_runtime("this program was built with", f.built_cuda, true);
    for (const LibraryFacts& library : f.libraries) {
      if (library.name != "cudart") continue;
      const int major = std::atoi(library.version.c_str());
      const std::size_t dot = library.version.find('.');
      const int minor = dot == std::string::npos ? 0 : std::atoi(library.version.c_str() + dot + 1);
      compare_runtime(fmt::format("{} is", library.path), major * 1000 + minor * 10, false);
      break;  // programs find the first one; the others are listed under "libraries"
    }
  }

  void libraries() {
    std::map<std::string, std::vector<const LibraryFacts*>> by_name;
    for (const LibraryFacts& library : f.libraries) by_name[library.name].push_back(&library);
    for (const auto& [name, found] : by_name) {
      std::vector<std::string> versions, lines;
      for (const LibraryFacts* library : found) {
        if (!has(versions, library->version)) versions.push_back(library->version);
        lines.push_back(fmt::format("{} ({})", library->version, library->path));
      }
      if (versions.size() > 1) {
        say(name, State::kWarning, fmt::format("{}: {}", counted(versions.size(), "version"), fmt::join(lines, ", ")),
            "a program may load one and have been built for another (CUBLAS_STATUS_NOT_INITIALIZED, undefined symbol): "
            "unset LD_LIBRARY_PATH for programs that bring their own, or remove all but one");
      } else {
        say(name, State::kOk, lines.front());
      }
    }
  }

  void gpu(std::size_t index) {
    const GpuFacts& gpu = f.gpus[index];
    const std::string topic = fmt::format("GPU {}", index);
    const std::string found =
        fmt::format("{}, compute capability {}.{}, {} free of {}", gpu.name, gpu.capability / 10, gpu.capability % 10,
                    format_bytes(gpu.free_bytes), format_bytes(gpu.total_bytes));
    const std::string holders = holders_text(gpu.holders);
    const std::uint64_t held = gpu.total_bytes - std::min(gpu.free_bytes, gpu.total_bytes);
    if (held > gpu.total_bytes / 10 && held > kGiB) {
      say(topic, gpu.free_bytes < kGiB ? State::kBroken : State::kWarning,
          fmt::format("{}; held by {}", found, holders.empty() ? "processes that are not visible from here" : holders),
          holders.empty() ? "another container or user holds it, or a process that died badly: nvidia-smi on the host; "
                            "fuser -v /dev/nvidia*"
                          : "end what is not needed (kill the process), or plan for what is free");
    } else {
      say(topic, State::kOk, found);
    }
    if (!f.code.runs_on(gpu.capability, f.driver_cuda >= f.built_cuda)) {
      say(topic, State::kBroken,
          fmt::format("this program holds kernels for {}, not for {}", f.code.text(), gpu.capability),
          fmt::format("build with -DPLIMSOLL_CUDA_ARCHITECTURES={}", gpu.capability), true);
    }
    if (!gpu.slowed_by.empty()) {
      say(topic, State::kWarning,
          fmt::format("its clocks are held down: {}{}", fmt::join(gpu.slowed_by, ", "),
                      gpu.temperature_celsius ? fmt::format(" ({} °C)", *gpu.temperature_celsius) : ""),
          "steps take longer than they could: look to cooling and the power supply; nvidia-smi -q -d PERFORMANCE");
    }
    if (gpu.uncorrected_errors > 0) {
      say(topic, State::kBroken,
          counted(gpu.uncorrected_errors, "uncorrected memory error") + " since the driver was loaded",
          "results cannot be trusted: reset the GPU or reboot; if they come back, have it replaced");
    }
  }

  const Facts& f;
  std::vector<Check> checks_;
};

}  // namespace

const char* state_name(State state) {
  return state == State::kOk ? "ok" : state == State::kWarning ? "warning" : "broken";
}

std::vector<Check> examine(const Facts& facts) { return Examination(facts).run(); }

}  // namespace plimsoll::doctor
