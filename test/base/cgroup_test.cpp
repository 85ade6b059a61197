// Tests the limits of nested groups, in trees of files that stand for /proc and /sys/fs/cgroup, and in real ones if
// this machine allows tests to make them.
#include "base/cgroup.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/bytes.h"
#include "base/process.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr const char* kVersion1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

class Cgroup : public testing::Test {
 protected:
  fs::path root() const { return folder_.path(); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  void process(const std::string& groups, const std::string& mounts) const {
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo", mounts);
    write("proc/self/status", "RssFile:\t  10240 kB\n");
    write("proc/meminfo", "MemTotal:  24000000 kB\nMemAvailable:  23068672 kB\n");
  }
  // Makes a group of version 2; `limit` and `high` are the texts of its files.
  void group(const std::string& name, const std::string& limit, std::size_t used = 0, const std::string& high = "max",
             std::size_t inactive_file = 0) const {
    const std::string directory = "sys/fs/cgroup" + name;
    write(directory + "/memory.max", limit + "\n");
    write(directory + "/memory.high", high + "\n");
    write(directory + "/memory.current", std::to_string(used) + "\n");
    write(directory + "/memory.stat", "anon 5\ninactive_file " + std::to_string(inactive_file) + "\n");
    write(directory + "/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
  }
  void group1(const std::string& name, std::size_t limit, std::size_t used = 0, bool use_hierarchy = true) const {
    const std::string directory = "sys/fs/cgroup/memory" + name;
    write(directory + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(directory + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    write(directory + "/memory.use_hierarchy", use_hierarchy ? "1\n" : "0\n");
  }
  MemoryGroups groups() const { return MemoryGroups(root()); }

 private:
  test::ScratchFolder folder_;
};

TEST_F(Cgroup, ALimitAnywhereAboveTheProcessCounts) {
  // The limit is set at each depth in turn; the process is in the deepest group.
  const std::vector<std::string> names = {"", "/user.slice", "/user.slice/job", "/user.slice/job/step"};
  for (const std::string& limited : names) {
    process("0::/user.slice/job/step\n", kVersion2);
    for (const std::string& name : names) group(name, name == limited ? "419430400" : "max", 100 * kMiB);
    EXPECT_EQ(groups().limit_bytes(), 400 * kMiB) << limited;
    EXPECT_EQ(groups().room_bytes(), 300 * kMiB) << limited;
    EXPECT_EQ(available_memory_bytes(root()), 300 * kMiB) << limited;
    ASSERT_TRUE(groups().least_limit().has_value());
    EXPECT_TRUE(fs::equivalent(groups().least_limit()->directory, root() / ("sys/fs/cgroup" + limited)));
  }
}

TEST_F(Cgroup, TheLeastLimitAndTheLeastRoomMayBeOfTwoGroups) {
  process("0::/a/b\n", kVersion2);
  group("", "max");
  group("/a", "1073741824", kGiB - 50 * kMiB);  // its limit is higher, but its neighbours hold the memory
  group("/a/b", "419430400", 20 * kMiB);
  EXPECT_EQ(groups().limit_bytes(), 400 * kMiB);
  EXPECT_EQ(groups().room_bytes(), 50 * kMiB);
}

TEST_F(Cgroup, NoLimitIsNone) {
  process("0::/a\n", kVersion2);
  group("", "max", kGiB);
  group("/a", "max", kGiB);
  EXPECT_EQ(groups().limit_bytes(), kNoLimitBytes);
  EXPECT_EQ(groups().room_bytes(), kNoLimitBytes);
  EXPECT_FALSE(groups().least_limit().has_value());
  EXPECT_EQ(available_memory_bytes(root()), std::size_t{23068672} * kKiB);
  EXPECT_EQ(machine_memory_bytes(root()), std::size_t{24000000} * kKiB);
}

TEST_F(Cgroup, BeyondMemoryHighAProcessSleeps) {
  process("0::/a\n", kVersion2);
  group("/a", "1073741824", 0, "209715200");
  EXPECT_EQ(groups().limit_bytes(), 200 * kMiB);
}

TEST_F(Cgroup, CachedPagesOfFilesAreFreeButNotTheProcesssOwn) {
  process("0::/a\n", kVersion2);
  group("/a", "419430400", 390 * kMiB, "max", 300 * kMiB);
  EXPECT_EQ(groups().room_bytes(), 310 * kMiB);
  EXPECT_EQ(groups().room_bytes(10 * kMiB), 300 * kMiB);
  EXPECT_EQ(available_memory_bytes(root()), 300 * kMiB);  // RssFile of 10 MiB
}

TEST_F(Cgroup, VersionOneIsWalkedToo) {
  constexpr std::size_t kNone = 9223372036854771712U;
  process("9:name=systemd:/x\n4:memory:/slurm/job_7/step_0\n1:cpu,cpuacct:/\n0::/\n", kVersion1);
  group1("", kNone);
  group1("/slurm", kNone);
  group1("/slurm/job_7", 400 * kMiB, 100 * kMiB);
  group1("/slurm/job_7/step_0", kNone, 90 * kMiB);
  EXPECT_EQ(groups().limit_bytes(), 400 * kMiB);
  EXPECT_EQ(groups().room_bytes(), 300 * kMiB);
  // A parent that does not count the groups below it limits nothing there.
  group1("/slurm/job_7", 400 * kMiB, 100 * kMiB, false);
  EXPECT_EQ(groups().limit_bytes(), kNoLimitBytes);
}

TEST_F(Cgroup, VersionOneTellsOfGroupsThatCannotBeSeen) {
  process("4:memory:/docker/7\n", "35 31 0:32 /docker/7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  group1("", 800 * kMiB, 100 * kMiB);
  write("sys/fs/cgroup/memory/memory.stat", "cache 5\nhierarchical_memory_limit 419430400\n");
  EXPECT_EQ(groups().limit_bytes(), 400 * kMiB);
}

TEST_F(Cgroup, AContainerSeesItsOwnGroupAsTheRoot) {
  // Without a namespace the process's path is the host's, and the mount is the container's group.
  process("0::/docker/7/worker\n", "35 31 0:32 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  group("", "419430400");
  group("/worker", "max");
  EXPECT_EQ(groups().limit_bytes(), 400 * kMiB);
  group("/worker", "209715200");
  EXPECT_EQ(groups().limit_bytes(), 200 * kMiB);
  // A path from outside the namespace refers to nothing here: the top group counts.
  process("0::/../../other\n", kVersion2);
  EXPECT_EQ(groups().limit_bytes(), 400 * kMiB);
}

TEST_F(Cgroup, WithoutAListOfMountsTheUsualPlacesAreTried) {
  process("0::/a\n", "");
  group("/a", "419430400");
  EXPECT_EQ(groups().limit_bytes(), 400 * kMiB);
}

TEST_F(Cgroup, NothingToReadIsNoLimit) {
  EXPECT_EQ(groups().limit_bytes(), kNoLimitBytes);
  EXPECT_TRUE(cgroup_directories("memory", root()).empty());
  process("nonsense\n0::/gone\n", kVersion2);
  EXPECT_EQ(groups().limit_bytes(), kNoLimitBytes);
}

TEST_F(Cgroup, KillsAreOfTheProcesssOwnGroup) {
  process("0::/a\n", kVersion2);
  group("/a", "max");
  EXPECT_EQ(groups().oom_kills(), 3U);
}

TEST_F(Cgroup, TheLeastQuotaOfCoresCounts) {
  process("0::/a/b\n", kVersion2);
  group("/a/b", "max");
  EXPECT_EQ(cgroup_cores(root()), std::nullopt);
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cores(root()), 2);
  process("3:cpu,cpuacct:/k\n", kVersion1);
  write("sys/fs/cgroup/cpu,cpuacct/k/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/k/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cores(root()), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/k/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(cgroup_cores(root()), 4);
}

// A group of this machine inside another, made for the test; empty if that is not allowed.
class RealGroups {
 public:
  RealGroups() {
    std::vector<CgroupDirectory> own = cgroup_directories("memory");
    std::error_code failed;
    // If both versions are mounted, one of them does not handle memory.
    std::erase_if(own, [&](const CgroupDirectory& each) { return !fs::exists(each.path / "memory.stat", failed); });
    if (own.empty()) return;
    version_ = own.front().version;
    outer_ = own.back().path / ("plimsoll-test-" + std::to_string(::getpid()));
    if (!fs::create_directory(outer_, failed) || failed) {
      outer_.clear();
      return;
    }
    if (version_ == 2) std::ofstream(outer_ / "cgroup.subtree_control") << "+memory" << std::flush;
    fs::create_directory(inner(), failed);
    std::ofstream limit(outer_ / (version_ == 2 ? "memory.max" : "memory.limit_in_bytes"));
    usable_ = !failed && static_cast<bool>(limit << 400 * kMiB << std::flush);
  }
  ~RealGroups() {
    std::error_code failed;
    if (!outer_.empty()) fs::remove(inner(), failed), fs::remove(outer_, failed);
  }
  RealGroups(const RealGroups&) = delete;
  RealGroups& operator=(const RealGroups&) = delete;
  bool usable() const { return usable_; }
  fs::path inner() const { return outer_ / "inner"; }

 private:
  fs::path outer_;
  int version_ = 2;
  bool usable_ = false;
};

TEST(RealCgroup, AProcessInANestedGroupKnowsItsLimit) {
  const RealGroups real;
  if (!real.usable()) GTEST_SKIP() << "this machine lets no test make groups";
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream procs(real.inner() / "cgroup.procs");
    if (!(procs << ::getpid() << std::flush)) ::_exit(2);
    const bool knows = MemoryGroups().limit_bytes() == 400 * kMiB && available_memory_bytes() <= 400 * kMiB &&
                       available_memory_bytes() > 200 * kMiB;
    ::_exit(knows ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this machine lets no test move processes";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace plimsoll
