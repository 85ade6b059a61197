#include "base/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/bytes.h"

namespace plimsoll {
namespace {

// Returns the number after `key` in a file of "Key:   123 kB" lines, in bytes; 0 if it is absent.
std::size_t kilobytes_of(const std::filesystem::path& path, const std::string& key) {
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

}  // namespace

std::size_t resident_bytes() {
  // This is called after every update, so it uses read(2) into a local buffer; a stream would allocate.
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

ProcessMemory process_memory(const MemoryGroups& groups) {
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
  memory.machine_free = std::min<std::size_t>(kilobytes("MemAvailable:"), groups.room_bytes(memory.file_backed));
  return memory;
}

std::size_t anonymous_bytes() { return kilobytes_of("/proc/self/status", "RssAnon:"); }

std::size_t peak_resident_bytes() { return kilobytes_of("/proc/self/status", "VmHWM:"); }

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return static_cast<bool>(file);
}

std::size_t available_memory_bytes(const std::filesystem::path& root) {
  const std::size_t machine = kilobytes_of(root / "proc/meminfo", "MemAvailable:");
  const std::size_t mapped = kilobytes_of(root / "proc/self/status", "RssFile:");
  return std::min(machine, MemoryGroups(root).room_bytes(mapped));
}

std::size_t machine_memory_bytes(const std::filesystem::path& root) {
  return kilobytes_of(root / "proc/meminfo", "MemTotal:");
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(cores, cgroup_cores().value_or(cores)));
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
