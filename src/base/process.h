// What the operating system says of this process and machine: resident memory, limits, cores.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/cgroup.h"

namespace plimsoll {

// Resident set now, and the largest it has been (VmRSS and VmHWM of /proc/self/status). 0 where /proc is missing.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();
// Starts VmHWM afresh at the present resident set, where the kernel allows it (/proc/self/clear_refs); false where not.
bool reset_peak_resident();

// Memory by kind, in bytes, asked for without allocating; 0 where /proc does not tell.
struct ProcessMemory {
  std::size_t resident = 0, anonymous = 0, file_backed = 0;  // of this process: VmRSS, RssAnon, RssFile
  std::size_t machine_free = 0;  // MemAvailable, or less where one of its cgroups has less room
};
ProcessMemory process_memory(const MemoryGroups& groups);

// Gives freed heap back to the system, so that resident_bytes() shows what is in use and not what has been.
void release_free_heap();

// Returns what this process may still take: MemAvailable, or less where a cgroup that it is in (base/cgroup.h) has less room.
// `root` stands for "/" in tests.
std::size_t available_memory_bytes(const std::filesystem::path& root = "/");
// The machine's memory (MemTotal); 0 where /proc is missing.
std::size_t machine_memory_bytes(const std::filesystem::path& root = "/");

// Cores that this process may use: its affinity mask, or fewer where a cgroup sets a CPU quota. At least 1.
int available_cores();

// "AMD EPYC 9R14" of /proc/cpuinfo, or "unknown".
std::string processor_name();

}  // namespace plimsoll
