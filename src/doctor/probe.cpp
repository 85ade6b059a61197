#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/process.h"
#include "doctor/facts.h"

namespace plimsoll::doctor {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void read_memory(Facts& facts) {
  std::ifstream file("/proc/meminfo");
  std::string key, rest;
  std::uint64_t kilobytes = 0;
  while (file >> key >> kilobytes && std::getline(file, rest)) {
    if (key == "MemTotal:") facts.memory_bytes = kilobytes * kKiB;
    if (key == "SwapTotal:") facts.swap_bytes = kilobytes * kKiB;
    if (key == "SwapFree:") facts.swap_free_bytes = kilobytes * kKiB;
  }
  facts.available_bytes = available_memory_bytes();
}

void read_cgroup(Facts& facts) {
  const MemoryGroups groups;
  if (const auto limit = groups.least_limit()) {
    facts.cgroup_limit_bytes = limit->limit_bytes;
    facts.cgroup_used_bytes = limit->used_bytes;
  }
  facts.cgroup_oom_kills = groups.oom_kills();
}

struct Space {
  std::uint64_t free_bytes, total_bytes;
};
std::optional<Space> space_of(const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return {};
  return Space{static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize,
               static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize};
}

void read_disks(Facts& facts, const fs::path& directory) {
  const char* home = std::getenv("HOME");
  std::error_code error;
  const fs::path output = (fs::absolute(directory, error) / "").lexically_normal().parent_path();
  const std::pair<const char*, fs::path> places[] = {{"output", output},
                                                     {"temporary files", fs::temp_directory_path(error)},
                                                     {"caches", home != nullptr ? fs::path(home) : fs::path()}};
  for (const auto& [what_for, path] : places) {
    const auto space = path.empty() ? std::nullopt : space_of(path);
    if (space) facts.disks.push_back({what_for, path.string(), space->free_bytes, space->total_bytes});
  }
}

bool any_nvidia_on_bus() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    // Class 03: displays and 3D controllers; NVIDIA makes network cards too.
    if (first_line(entry.path() / "vendor") == "0x10de" && first_line(entry.path() / "class").starts_with("0x03"))
      return true;
  }
  return false;
}

// Returns "550.54.14" for "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 …", or for the open
// module's line.
std::string module_version() {
  std::istringstream words(first_line("/proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    if (std::count(word.begin(), word.end(), '.') >= 1 &&
        std::all_of(word.begin(), word.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); }))
      return word;
  }
  return {};
}

// Returns "12.4.127" for "libcudart.so.12.4.127".
std::string version_in(const std::string& file_name) {
  const std::size_t place = file_name.find(".so.");
  return place == std::string::npos ? "" : file_name.substr(place + 4);
}

void add_environment_libraries(std::vector<fs::path>& directories, const char* variable) {
  const char* root = std::getenv(variable);
  if (root == nullptr) return;
  std::error_code error;
  directories.push_back(fs::path(root) / "lib");
  for (const auto& python : fs::directory_iterator(fs::path(root) / "lib", error)) {
    const fs::path packages = python.path() / "site-packages";
    directories.push_back(packages / "torch" / "lib");
    std::error_code missing;
    for (const auto& part : fs::directory_iterator(packages / "nvidia", missing))
      directories.push_back(part.path() / "lib");
  }
}

std::optional<std::uint64_t> address_space_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

}  // namespace

std::vector<LibraryFacts> find_cuda_libraries() {
  std::vector<fs::path> directories;
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    std::istringstream parts(path);
    for (std::string part; std::getline(parts, part, ':');) {
      if (!part.empty()) directories.emplace_back(part);
    }
  }
  add_environment_libraries(directories, "VIRTUAL_ENV");
  add_environment_libraries(directories, "CONDA_PREFIX");
  std::error_code error;
  for (const char* place :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    directories.emplace_back(place);
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().starts_with("cuda-")) directories.push_back(entry.path() / "lib64");
  }
  std::vector<LibraryFacts> libraries;
  std::set<fs::path> seen;
  for (const fs::path& directory : directories) {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(directory, missing)) {
      const std::string file = entry.path().filename().string();
      for (const char* name : {"cudart", "cublas", "cudnn", "nccl"}) {
        if (!file.starts_with(std::string("lib") + name + ".so.")) continue;
        const fs::path real = fs::canonical(entry.path(), missing);
        if (missing || !seen.insert(real).second) continue;
        libraries.push_back({name, version_in(real.filename().string()), entry.path().string()});
      }
    }
  }
  return libraries;
}

Facts probe(const fs::path& directory) {
  Facts facts;
  facts.processor = processor_name();
  facts.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (const long online = ::sysconf(_SC_NPROCESSORS_ONLN); online > 0) facts.cores = static_cast<int>(online);
  facts.usable_cores = available_cores();
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(std::min(line.find(':'), line.size() - 1) + 1));
    for (std::string word; words >> word;) facts.features.push_back(word);
    break;
  }
  read_memory(facts);
  read_cgroup(facts);
  facts.address_space_limit_bytes = address_space_limit();
  if (const auto space = space_of("/dev/shm")) {
    facts.shm_bytes = space->total_bytes;
    facts.shm_free_bytes = space->free_bytes;
  }
  read_disks(facts, directory);
  std::error_code error;
  facts.pci_device = any_nvidia_on_bus();
  facts.wsl = fs::exists("/dev/dxg", error);
  facts.device_node = facts.wsl || fs::exists("/dev/nvidiactl", error);
  facts.nouveau = fs::exists("/sys/module/nouveau", error) && facts.pci_device;
  facts.module_version = module_version();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible_devices = visible;
  probe_driver(facts);
  facts.libraries = find_cuda_libraries();
  return facts;
}

}  // namespace plimsoll::doctor
