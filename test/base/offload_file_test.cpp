#include "base/offload_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "support/expect_error.h"
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

void copy_each_half_twice(std::span<const std::byte> narrow, std::span<std::byte> wide) {
  for (std::size_t i = 0; i < narrow.size(); i += 2) {
    for (const std::size_t to : {2 * i, 2 * i + 2}) std::memcpy(&wide[to], &narrow[i], 2);
  }
}

// At any place of the other file, up to its last byte, and even when its path leads elsewhere by now.
TEST(OffloadFile, ReadsPiecesOfOtherFilesWhereTheyAre) {
  const ScratchFolder folder;
  for (const auto& directory : folders(folder)) {
    const std::filesystem::path path = directory / "plimsoll_outside";
    const std::vector<std::byte> whole = pattern(2 * kOffloadBlockBytes + 9001, 7);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(whole.data()), std::ssize(whole));
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    std::filesystem::remove(path);
    std::vector<OutsidePiece> pieces;
    std::uint64_t offset = kOutsideOffset;
    for (const OutsidePiece::Widen widen : {OutsidePiece::Widen{nullptr}, OutsidePiece::Widen{copy_each_half_twice}}) {
      for (const std::uint64_t at :
           {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{4095}, std::uint64_t{70'001}}) {
        for (const std::size_t size : {std::size_t{4}, std::size_t{4096}, std::size_t{8196}, whole.size()}) {
          const std::size_t in_file = std::min(size, whole.size() - at) / 4 * 4;
          pieces.push_back({.offset = offset,
                            .bytes = widen == nullptr ? in_file : 2 * in_file,
                            .file = path,
                            .descriptor = descriptor,
                            .at = at,
                            .widen = widen});
          offset += (pieces.back().bytes + kOffloadAlignment - 1) / kOffloadAlignment * kOffloadAlignment;
        }
      }
    }
    pieces.push_back({.offset = offset, .bytes = 9, .file = path, .descriptor = descriptor, .at = whole.size() - 9});
    OffloadFile file(directory, 0, pieces);
    ::close(descriptor);
    for (const OutsidePiece& piece : pieces) {
      std::vector<std::byte> expected(piece.bytes);
      const std::size_t in_file = piece.widen == nullptr ? piece.bytes : piece.bytes / 2;
      const auto there = std::span(whole).subspan(piece.at, in_file);
      if (piece.widen == nullptr) {
        std::ranges::copy(there, expected.begin());
      } else {
        copy_each_half_twice(there, expected);
      }
      // Whole, and from a block of it on.
      for (const std::size_t first : {std::size_t{0}, piece.bytes > kOffloadAlignment ? kOffloadAlignment : 0}) {
        const auto rest = std::span(expected).subspan(first);
        std::vector<std::byte> found(rest.size());
        ASSERT_EQ(file.read(piece.offset + first, found), 0);
        EXPECT_TRUE(std::ranges::equal(found, rest)) << piece.bytes << " bytes at " << piece.at << " from " << first;
        std::vector<std::byte> visited;
        file.visit(piece.offset + first, rest.size(), false,
                   [&](std::span<std::byte> block) { visited.insert(visited.end(), block.begin(), block.end()); });
        EXPECT_TRUE(visited == found);
      }
      EXPECT_EQ(file.where(piece.offset), path);
      std::vector<std::byte> beyond(piece.bytes + 4);
      EXPECT_EQ(file.read(piece.offset, beyond), EINVAL);
      EXPECT_EQ(file.write(piece.offset, expected), EROFS);
      EXPECT_THROW(file.visit(piece.offset, 1, true, [](std::span<std::byte>) {}), EnvironmentError);
    }
  }
}

TEST(OffloadFile, APieceThatIsMissingIsAnError) {
  const ScratchFolder folder;
  folder.write("short", "1234");
  const std::filesystem::path path = folder.path() / "short";
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  OffloadFile file(folder.path(), 0, {{.offset = kOutsideOffset, .bytes = 8, .file = path, .descriptor = descriptor}});
  std::vector<std::byte> bytes(8);
  EXPECT_EQ(file.read(kOutsideOffset, bytes), EIO);
  expect_error<EnvironmentError>([&] { file.visit(kOutsideOffset, 8, false, [](std::span<std::byte>) {}); },
                                 {path.string()});
  ::close(descriptor);
  expect_error<EnvironmentError>(
      [&] { OffloadFile(folder.path(), 0, {{.offset = kOutsideOffset, .bytes = 4, .file = path, .descriptor = -1}}); },
      {"cannot be opened again", path.string()});
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
