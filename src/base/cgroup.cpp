#include "base/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Version 1 writes a huge number, rounded to pages, if there is no limit.
constexpr std::size_t kLeastNoLimit = std::size_t{1} << 60;

// Reads the beginning of a small file into a buffer of its own. It is read after every update, so nothing is allocated.
class SmallFile {
 public:
  explicit SmallFile(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t count = ::read(file, text_.data(), text_.size() - 1);
    ::close(file);
    size_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    text_[size_] = 0;
  }
  // Returns the number at the beginning; nothing for "max", or if the file is missing or empty.
  std::optional<std::size_t> number() const { return number_at(text_.data()); }
  // Returns the number on the line that begins with `key`.
  std::optional<std::size_t> number_of(const char* key) const {
    const std::size_t length = std::strlen(key);
    for (const char* line = text_.data(); line != nullptr && *line != 0;) {
      if (std::strncmp(line, key, length) == 0 && line[length] == ' ') return number_at(line + length + 1);
      line = std::strchr(line, '\n');
      if (line != nullptr) ++line;
    }
    return std::nullopt;
  }

 private:
  static std::optional<std::size_t> number_at(const char* text) {
    char* after = nullptr;
    const unsigned long long value = std::strtoull(text, &after, 10);
    if (after == text || *text == '-') return std::nullopt;
    return value;
  }
  std::array<char, 4096> text_{};
  std::size_t size_ = 0;
};

bool lists(const std::string& comma_separated, std::string_view name) {
  std::istringstream names(comma_separated);
  for (std::string each; std::getline(names, each, ',');) {
    if (each == name) return true;
  }
  return false;
}

struct Mount {
  std::string root;  // the group that is mounted at `point`
  fs::path point;
};

// mountinfo writes a space as \040.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Finds a line like "32 31 0:29 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory".
std::optional<Mount> find_mount(int version, std::string_view controller, const fs::path& root) {
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string id, parent, device, mounted, point, type, source, options;
    before >> id >> parent >> device >> mounted >> point;
    after >> type >> source >> options;
    if (type != (version == 2 ? "cgroup2" : "cgroup") || (version == 1 && !lists(options, controller))) continue;
    return Mount{unescaped(mounted), root / fs::path(unescaped(point)).relative_path()};
  }
  return std::nullopt;
}

// Returns the process's group as a path below the mount. The mount itself may be a group (a container's); the process's
// path then begins with that group's name, or the group is all that the container sees.
fs::path below_mount(const std::string& group, const std::string& mounted) {
  const fs::path path = fs::path(group).lexically_normal();
  if (mounted == "/" || mounted.empty()) return path.relative_path();
  const fs::path below = path.lexically_relative(mounted);
  const bool outside = below.empty() || *below.begin() == "..";
  return outside || below == "." ? fs::path() : below;
}

void add_directories(int version, std::string_view controller, const std::string& group, const fs::path& root,
                     std::vector<CgroupDirectory>& directories) {
  const std::optional<Mount> mount = find_mount(version, controller, root);
  // Without a list of mounts, the conventional places are used.
  const fs::path usual = root / "sys/fs/cgroup";
  const fs::path top = mount ? mount->point : version == 2 ? usual : usual / std::string(controller);
  fs::path below = below_mount(group, mount ? mount->root : "/");
  std::error_code none;
  for (;; below = below.parent_path()) {
    // A path from outside the process's namespace ("/../x") refers to nothing visible.
    const bool visible = std::find(below.begin(), below.end(), "..") == below.end();
    const fs::path directory = below.empty() ? top : top / below;
    if (visible && fs::is_directory(directory, none)) directories.push_back({directory, version});
    if (below.empty()) return;
  }
}

}  // namespace

std::vector<CgroupDirectory> cgroup_directories(std::string_view controller, const fs::path& root) {
  std::vector<CgroupDirectory> directories;
  std::ifstream file(root / "proc/self/cgroup");
  // A line is "0::/user.slice/run" in version 2, "4:memory:/docker/7" in version 1.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (names.empty()) {
      add_directories(2, controller, group, root, directories);
    } else if (lists(names, controller)) {
      add_directories(1, controller, group, root, directories);
    }
  }
  return directories;
}

MemoryGroups::MemoryGroups(const fs::path& root) {
  bool inherits = true;
  for (const auto& [path, version] : cgroup_directories("memory", root)) {
    const auto file = [&path = path](const char* name) { return (path / name).string(); };
    if (version == 2) {
      groups_.push_back({.directory = path.string(),
                         .limit = file("memory.max"),
                         .throttle = file("memory.high"),
                         .used = file("memory.current"),
                         .stat = file("memory.stat"),
                         .events = file("memory.events")});
      continue;
    }
    // In version 1 a group without use_hierarchy does not count the groups below it.
    const std::string hierarchy = file("memory.use_hierarchy");
    const bool is_own = groups_.empty() || groups_.back().throttle.size() > 0;
    if (!is_own) inherits = inherits && SmallFile(hierarchy.c_str()).number().value_or(1) != 0;
    if (!inherits) continue;
    groups_.push_back({.directory = path.string(),
                       .limit = file("memory.limit_in_bytes"),
                       .throttle = {},
                       .used = file("memory.usage_in_bytes"),
                       .stat = file("memory.stat"),
                       .events = file("memory.oom_control")});
  }
}

std::size_t MemoryGroups::limit_of(const Group& group) {
  std::size_t limit = SmallFile(group.limit.c_str()).number().value_or(kNoLimitBytes);
  if (group.throttle.empty()) {
    // The hierarchical figure counts groups above that this process cannot see.
    limit = std::min(limit, SmallFile(group.stat.c_str()).number_of("hierarchical_memory_limit").value_or(limit));
  } else {
    // Above memory.high the kernel throttles the process instead of killing it; no run makes progress that way.
    limit = std::min(limit, SmallFile(group.throttle.c_str()).number().value_or(limit));
  }
  return limit >= kLeastNoLimit ? kNoLimitBytes : limit;
}

std::size_t MemoryGroups::used_by(const Group& group) { return SmallFile(group.used.c_str()).number().value_or(0); }

std::optional<MemoryGroups::Limit> MemoryGroups::least_limit() const {
  std::optional<Limit> least;
  for (const Group& group : groups_) {
    const std::size_t limit = limit_of(group);
    if (limit == kNoLimitBytes || (least && limit >= least->limit_bytes)) continue;
    least = Limit{.directory = group.directory, .limit_bytes = limit, .used_bytes = used_by(group)};
  }
  return least;
}

std::size_t MemoryGroups::limit_bytes() const {
  std::size_t least = kNoLimitBytes;
  for (const Group& group : groups_) least = std::min(least, limit_of(group));
  return least;
}

std::size_t MemoryGroups::room_bytes(std::size_t mapped_bytes) const {
  std::size_t least = kNoLimitBytes;
  for (const Group& group : groups_) {
    const std::size_t limit = limit_of(group);
    if (limit == kNoLimitBytes) continue;
    const SmallFile stat(group.stat.c_str());
    const char* const key = group.throttle.empty() ? "total_inactive_file" : "inactive_file";
    const std::size_t cached = stat.number_of(key).value_or(0);
    const std::size_t droppable = cached - std::min(cached, mapped_bytes), used = used_by(group);
    const std::size_t held = used - std::min(used, droppable);
    least = std::min(least, limit - std::min(limit, held));
  }
  return least;
}

std::optional<std::uint64_t> MemoryGroups::oom_kills() const {
  for (const Group& group : groups_) {
    if (const auto kills = SmallFile(group.events.c_str()).number_of("oom_kill")) return *kills;
  }
  return std::nullopt;
}

std::optional<int> cgroup_cores(const fs::path& root) {
  std::optional<int> least;
  for (const auto& [path, version] : cgroup_directories("cpu", root)) {
    double quota = -1, period = 0;
    if (version == 2) {
      std::ifstream(path / "cpu.max") >> quota >> period;  // "max 100000" does not parse as a number
    } else {
      std::ifstream(path / "cpu.cfs_quota_us") >> quota;
      std::ifstream(path / "cpu.cfs_period_us") >> period;
    }
    if (quota <= 0 || period <= 0) continue;
    constexpr double kMost = 1 << 20;
    const int cores = static_cast<int>(std::ceil(std::min(kMost, quota / period)));
    least = std::min(least.value_or(cores), cores);
  }
  return least;
}

}  // namespace plimsoll
