#include "base/offload_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 37 + i / 251 + seed) % 253);
  return bytes;
}

// Returns folders on this disk and on tmpfs, which older kernels do not read directly.
std::vector<std::filesystem::path> folders(const ScratchFolder& folder) {
  std::vector<std::filesystem::path> all = {folder.path()};
  if (::access("/dev/shm", W_OK) == 0) all.emplace_back("/dev/shm");
  return all;
}

TEST(OffloadFile, HoldsWhatIsWritten) {
  const ScratchFolder folder;
  for (const auto& directory : folders(folder)) {
    OffloadFile file(directory, 8 * kOffloadBlockBytes);
    std::uint64_t offset = 0;
    std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> pieces;
    for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{70'001},
                                   kOffloadBlockBytes, 2 * kOffloadBlockBytes + 5}) {
      pieces.emplace_back(offset, pattern(size, static_cast<unsigned>(size)));
      ASSERT_EQ(file.write(offset, pieces.back().second), 0);
      offset += (size + kOffloadAlignment - 1) / kOffloadAlignment * kOffloadAlignment;
    }
    for (const auto& [at, expected] : pieces) {
      std::vector<std::byte> found(expected.size());
      ASSERT_EQ(file.read(at, found), 0);
      EXPECT_TRUE(found == expected) << directory << ": " << expected.size() << " bytes at " << at;
    }
  }
}

TEST(OffloadFile, IsZerosAtFirstAndHasNoName) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 100'000);
  EXPECT_GE(file.bytes(), 100'000U);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::vector<std::byte> found(100'000, std::byte{1});
  ASSERT_EQ(file.read(0, found), 0);
  EXPECT_TRUE(found == std::vector<std::byte>(100'000));
}

TEST(OffloadFile, ShowsBlocksInOrder) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 4 * kOffloadBlockBytes);
  const std::vector<std::byte> expected = pattern(2 * kOffloadBlockBytes + 4097, 3);
  std::size_t done = 0;
  file.visit(kOffloadAlignment, expected.size(), true, [&](std::span<std::byte> block) {
    std::memcpy(block.data(), expected.data() + done, block.size());
    done += block.size();
  });
  EXPECT_EQ(done, expected.size());
  std::vector<std::byte> found;
  file.visit(kOffloadAlignment, expected.size(), false,
             [&](std::span<std::byte> block) { found.insert(found.end(), block.begin(), block.end()); });
  EXPECT_TRUE(found == expected);
}

TEST(OffloadFile, ReadingPastItsEndFails) {
  const ScratchFolder folder;
  OffloadFile file(folder.path(), 8192);
  std::vector<std::byte> bytes(8192);
  EXPECT_EQ(file.read(8192, bytes), EIO);
  EXPECT_THROW(file.visit(8192, 10, false, [](std::span<std::byte>) {}), EnvironmentError);
}

TEST(OffloadFile, ADirectoryThatIsMissingIsRefused) {
  try {
    const OffloadFile file("/nowhere/at/all", 4096);
    FAIL() << "no file can be there";
  } catch (const EnvironmentError& error) {
    EXPECT_EQ(error.problem().where, "--offload /nowhere/at/all");
    EXPECT_FALSE(error.problem().remedy.empty());
  }
}

// Forks a process whose files may not exceed 1 MiB, as on a full disk. 0: refused at once, naming the directory.
TEST(OffloadFile, AFullDiskIsRefusedWhenTheFileIsMade) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit files{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &files);
    int code = 1;
    try {
      const OffloadFile small(folder.path(), 1 << 19);
      const OffloadFile file(folder.path(), 1 << 22);
    } catch (const EnvironmentError& error) {
      const Problem& p = error.problem();
      code = p.where.empty() || p.found.empty() || p.allowed.find("4.00 MiB") == std::string::npos || p.remedy.empty();
    } catch (...) {
      code = 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OffloadFile, ItsDiskIsMeasured) {
  const ScratchFolder folder;
  const TransferSpeed speed = measure_disk(folder.path());
  EXPECT_GT(speed.read_bytes_per_second, 0);
  EXPECT_GT(speed.write_bytes_per_second, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace plimsoll::test
