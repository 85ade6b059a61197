// Facts from the operating system about this process and machine: resident memory, limits, cores.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/cgroup.h"

namespace plimsoll {

// The resident set now, and its peak (VmRSS and VmHWM of /proc/self/status). 0 if /proc is missing.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();
std::size_t anonymous_bytes();  // of the resident set, those of no file
// The process's memory varies from run to run by up to 1.1 MiB, and that of processes that MPI starts by up to 3.1; a
// budget that a refusal names has room for that.
inline constexpr std::size_t kVariationBytes = 2 * kMiB, kRanksVariationBytes = 4 * kMiB;
// Resets VmHWM to the current resident set if the kernel allows it (/proc/self/clear_refs); returns false if not.
bool reset_peak_resident();

// Memory by kind, in bytes, read without allocating; 0 if /proc does not report it.
struct ProcessMemory {
  std::size_t resident = 0, anonymous = 0, file_backed = 0;  // of this process: VmRSS, RssAnon, RssFile
  std::size_t machine_free = 0;  // MemAvailable, or less if one of its cgroups has less room
};
ProcessMemory process_memory(const MemoryGroups& groups);

// Returns freed heap memory to the system, so that resident_bytes() counts only memory in use.
void release_free_heap();

// The bytes that this process may still take: MemAvailable, or less if one of its cgroups (base/cgroup.h) has less
// room. `root` stands for "/" in tests.
std::size_t available_memory_bytes(const std::filesystem::path& root = "/");
// The machine's memory (MemTotal); 0 if /proc is missing.
std::size_t machine_memory_bytes(const std::filesystem::path& root = "/");

// The cores that this process may use: its affinity mask, or fewer if a cgroup sets a CPU quota. At least 1.
int available_cores();

// Returns "AMD EPYC 9R14" from /proc/cpuinfo, or "unknown".
std::string processor_name();

}  // namespace plimsoll
