// Control groups: limits on this process below the machine's own size. Docker, Kubernetes, Slurm and systemd nest them,
// and a group's limit holds for all groups below it, so the process's own group and every mounted group above it are
// read; versions 1 and 2, and both side by side.
//
//   const MemoryGroups groups;                        // finds them; may allocate
//   const std::size_t room = groups.room_bytes();     // reads their files; allocates nothing
//
// `root` stands for "/" so that tests can replace it: proc/self/cgroup, proc/self/mountinfo and the mounted trees are
// below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// The value that means "no limit".
inline constexpr std::size_t kNoLimitBytes = SIZE_MAX;

struct CgroupDirectory {
  std::filesystem::path path;
  int version = 2;
};

// Returns the directories of the process's groups that may limit `controller` ("memory", "cpu"), from its own upward.
// Empty if there are none, or none is mounted.
std::vector<CgroupDirectory> cgroup_directories(std::string_view controller, const std::filesystem::path& root = "/");

class MemoryGroups {
 public:
  explicit MemoryGroups(const std::filesystem::path& root = "/");

  struct Limit {
    std::string directory;  // the directory of the group that sets the limit
    std::size_t limit_bytes = 0, used_bytes = 0;
  };
  // Returns the smallest limit of any group; nothing if none is set.
  std::optional<Limit> least_limit() const;
  // Returns the same as a number, kNoLimitBytes if none is set.
  std::size_t limit_bytes() const;
  // Returns the bytes that the process may still take before one of its groups is full; kNoLimitBytes where none has a
  // limit. Cached file pages count as free if the kernel would drop them first, except for `mapped_bytes`, the
  // process's own.
  std::size_t room_bytes(std::size_t mapped_bytes = 0) const;
  // Counts the processes in the process's own group that the kernel has killed for memory; nothing if unknown.
  std::optional<std::uint64_t> oom_kills() const;

 private:
  struct Group {
    std::string directory;
    std::string limit, throttle, used, stat, events;  // paths; `throttle` is empty in version 1
  };
  static std::size_t limit_of(const Group& group);
  static std::size_t used_by(const Group& group);

  std::vector<Group> groups_;
};

// Returns the cores that the groups' quotas allow, rounded up; nothing if there is no quota.
std::optional<int> cgroup_cores(const std::filesystem::path& root = "/");

}  // namespace plimsoll
