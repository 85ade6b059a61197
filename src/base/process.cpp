#include "base/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/bytes.h"

namespace plimsoll {
namespace {

// The number after `key` in a file of "Key:   123 kB" lines, in bytes; 0 if absent.
std::size_t kilobytes_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word != key) continue;
    std::size_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes * kKiB;
  }
  return 0;
}

// The first word of a file as a number; `missing` if there is none ("max").
double number_in(const std::string& path, double missing) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : missing;
}

// Cores that cgroup v2's "cpu.max" or v1's quota grant, rounded up; no limit: a large number.
int cgroup_cores() {
  constexpr int kNoLimit = 1 << 20;
  double quota = -1, period = 0;
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  if (std::string word; v2 >> word) {
    if (word == "max" || !(v2 >> period)) return kNoLimit;
    quota = std::strtod(word.c_str(), nullptr);
  } else {
    std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (!(quota_file >> quota && period_file >> period)) return kNoLimit;
  }
  if (quota <= 0 || period <= 0) return kNoLimit;
  return static_cast<int>(std::min<double>(kNoLimit, (quota + period - 1) / period));
}

}  // namespace

std::size_t resident_bytes() {
  // Asked for after every update: read(2) into a buffer here, since a stream would allocate.
  std::array<char, 128> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t count = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  if (count <= 0) return 0;
  char* after_size = nullptr;
  std::strtoull(text.data(), &after_size, 10);
  return std::strtoull(after_size, nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

ProcessMemory process_memory() {
  std::array<char, 4096> text{};
  const auto read_file = [&](const char* path) {
    text.fill(0);
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    if (::read(file, text.data(), text.size() - 1) < 0) text.fill(0);
    ::close(file);
  };
  const auto kilobytes = [&](const char* key) {
    const char* at = std::strstr(text.data(), key);
    return at == nullptr ? std::size_t{0} : std::strtoull(at + std::strlen(key), nullptr, 10) * kKiB;
  };
  ProcessMemory memory;
  read_file("/proc/self/status");
  memory.resident = kilobytes("VmRSS:");
  memory.anonymous = kilobytes("RssAnon:");
  memory.file_backed = kilobytes("RssFile:");
  read_file("/proc/meminfo");
  memory.machine_free = kilobytes("MemAvailable:");
  return memory;
}

std::size_t peak_resident_bytes() { return kilobytes_of("/proc/self/status", "VmHWM:"); }

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return static_cast<bool>(file);
}

std::size_t available_memory_bytes() {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double available = static_cast<double>(kilobytes_of("/proc/meminfo", "MemAvailable:"));
  const double limit2 = number_in("/sys/fs/cgroup/memory.max", kNone);
  const double used2 = number_in("/sys/fs/cgroup/memory.current", 0);
  const double limit1 = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", kNone);
  const double used1 = number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0);
  available = std::min({available, limit2 - used2, limit1 - used1});
  return available > 0 ? static_cast<std::size_t>(available) : 0;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(cores, cgroup_cores()));
}

void release_free_heap() { ::malloc_trim(0); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace plimsoll
