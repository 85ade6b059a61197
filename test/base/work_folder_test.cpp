#include "base/work_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::string refusal(const fs::path& directory) {
  try {
    const DirectoryLock lock(directory, "--output-dir");
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(DirectoryLock, OneHolderAtATimeWhoIsNamed) {
  const ScratchFolder folder;
  {
    const DirectoryLock lock(folder.path(), "--output-dir");
    const std::string text = refusal(folder.path());
    EXPECT_THAT(text, testing::HasSubstr("process " + std::to_string(::getpid()) + " on "));
    EXPECT_THAT(text, testing::HasSubstr(" since 20"));
    EXPECT_THAT(text, testing::HasSubstr("--output-dir"));
  }
  EXPECT_EQ(refusal(folder.path()), "");
  EXPECT_TRUE(fs::is_empty(folder.path())) << "nothing is left of a lock that was given back";
}

TEST(DirectoryLock, ADirectoryThatWasMadeAgainIsTheOtherProcesses) {
  const ScratchFolder folder;
  const fs::path directory = folder / "run", lock = work_folder(directory) / "lock";
  fs::create_directory(directory);
  std::optional<DirectoryLock> first(std::in_place, directory, "--output-dir");
  refuse_another_directory(directory);
  fs::remove_all(directory);
  refuse_another_directory(directory);  // nobody has it: it is made again
  EXPECT_TRUE(fs::is_directory(directory));
  refuse_another_directory(directory);
  fs::rename(directory, folder / "away");
  fs::create_directories(lock.parent_path());
  folder.write("run/.plimsoll/lock", "process 7 on another, since then\n");
  test::expect_error<EnvironmentError>([&] { refuse_another_directory(directory); }, {directory.string(), "removed"});
  first.reset();
  EXPECT_TRUE(fs::exists(lock)) << "the other process's lock stays";
  refuse_another_directory(directory);  // nothing is locked any more
}

TEST(DirectoryLock, AKilledProcessHoldsNothing) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    std::optional<DirectoryLock> lock;
    while (!lock) {  // the parent's look takes it for a moment
      try {
        lock.emplace(folder.path(), "--output-dir");
      } catch (const Error&) {
      }
    }
    ::pause();
    ::_exit(0);
  }
  while (refusal(folder.path()).empty()) ::usleep(1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(work_folder(folder.path()) / "lock"));
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(WorkFolder, DirectoriesInItAreEmptyAtFirstAndGoWithIt) {
  const ScratchFolder folder;
  folder.write(".plimsoll/checkpoint-3/torn", "x");
  const fs::path aside = make_work_directory(folder.path(), "checkpoint-3");
  EXPECT_EQ(aside, folder / ".plimsoll/checkpoint-3");
  EXPECT_TRUE(fs::is_empty(aside));
  make_work_directory(folder.path(), "checkpoint-4");
  remove_work_directory(folder.path(), "checkpoint-3");
  EXPECT_TRUE(fs::exists(folder / ".plimsoll/checkpoint-4"));
  remove_work_directory(folder.path(), "checkpoint-4");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(WorkFolder, ADirectoryLooksEmptyWithLogsAndMarksAlone) {
  const ScratchFolder folder;
  EXPECT_TRUE(looks_empty(folder / "absent"));
  EXPECT_TRUE(looks_empty(folder.path()));
  for (const char* name : {"train.log", "slurm-12.out", ".gitignore"}) folder.write(name, "x");
  fs::create_directory(folder / "lost+found");
  EXPECT_TRUE(looks_empty(folder.path()));
  fs::create_directory(folder / "old.log");
  EXPECT_FALSE(looks_empty(folder.path())) << "a directory is no log";
  fs::remove(folder / "old.log");
  folder.write("notes.txt", "x");
  EXPECT_FALSE(looks_empty(folder.path()));
  EXPECT_FALSE(looks_empty(folder / "notes.txt"));
}

}  // namespace
}  // namespace plimsoll
