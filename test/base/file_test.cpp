#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

// Returns the type of `path` itself, without following links: S_IFREG, S_IFIFO, …
mode_t kind_of(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & S_IFMT : 0;
}

// Makes a device like those in /dev; returns false if only an administrator may make or open one.
bool make_device(const fs::path& path, unsigned minor_number) {
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor_number)) != 0) return false;
  const int file = ::open(path.c_str(), O_WRONLY);
  if (file >= 0) ::close(file);
  return file >= 0;
}
constexpr unsigned kNull = 3, kFull = 7;

TEST(OutputFile, ReplacesInOneStepAndLeavesNothingWithoutClose) {
  const ScratchFolder folder;
  const fs::path path = folder.write("out", "before");
  {
    OutputFile torn(path);
    torn.write("half");
    EXPECT_EQ(read_text_file(path), "before");
  }
  EXPECT_EQ(read_text_file(path), "before");
  OutputFile file(path);
  file.write("whole");
  file.close();
  EXPECT_EQ(read_text_file(path), "whole");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

// A file left by a killed process is overwritten; one that another process is writing is not, nor is a user's own file.
TEST(OutputFile, OnlyItsOwnBytesAreAside) {
  const ScratchFolder folder;
  const fs::path path = folder / "out", users = folder.write("out.tmp", "a user's own");
  folder.write(aside_path(path).filename().string(), "left by a process that was killed, and longer");
  OutputFile file(path);
  file.write("whole");
  EXPECT_THROW(OutputFile{path}, EnvironmentError) << "two at once";
  EXPECT_TRUE(fs::exists(aside_path(path))) << "which is the first one's";
  const FileSum sum = file.close();
  EXPECT_EQ(read_text_file(path), "whole");
  EXPECT_EQ(read_text_file(users), "a user's own");
  EXPECT_EQ(sum.bytes, 5U);
  EXPECT_EQ(sum.hash, hash_bytes(std::as_bytes(std::span("whole", 5))));
  EXPECT_FALSE(fs::exists(aside_path(path)));
  EXPECT_NO_THROW(OutputFile{path});
}

TEST(InputFile, SaysWhetherItWasShortOrHasBecomeSo) {
  const test::ScratchFolder folder;
  const fs::path path = folder.write("a", std::string(100, 'a'));
  const InputFile file(path);
  std::array<std::byte, 60> bytes;
  file.read_at(40, bytes);
  test::expect_error<DataError>([&] { file.read_at(41, bytes); },
                                {"a file ends too early", "100 bytes", "at least 101 bytes", "torn"});
  fs::resize_file(path, 70);
  test::expect_error<DataError>([&] { file.read_at(40, bytes); },
                                {"cut off while it was in use", "70 bytes", "100 bytes, as when it was opened"});
}

TEST(InputFile, APipeWithoutAWriterIsRefusedAtOnce) {
  const ScratchFolder folder;
  const fs::path path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ::alarm(20);  // opened normally, it would wait for ever
  EXPECT_THROW(InputFile{path}, DataError);
  ::alarm(0);
}

TEST(OutputFile, WhatAKilledProcessLeftIsRemovedAndNothingThatIsBeingWritten) {
  const ScratchFolder folder;
  const auto half_of = [&](const char* name) {
    return folder.write(aside_path(folder / name).filename().string(), "half");
  };
  const fs::path left = half_of("left"), others = half_of("others"), users = folder.write("left.tmp", "a user's own");
  OutputFile written(folder / "written");
  remove_abandoned_files(folder.path(), [](const std::string& name) { return name != "others"; });
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_TRUE(fs::exists(users));
  written.close();
  EXPECT_TRUE(fs::exists(folder / "written"));
}

TEST(OutputFile, APipeIsWrittenThrough) {
  const ScratchFolder folder;
  const fs::path path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(is_special_file(path));
  std::string read;
  std::thread reader([&] {
    const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);  // must not wait for a writer that never comes
    for (int i = 0; i < 2000 && read.size() < 5; ++i) {
      std::array<char, 64> bytes{};
      const ssize_t count = ::read(file, bytes.data(), bytes.size());
      if (count > 0) read.append(bytes.data(), static_cast<std::size_t>(count));
      ::usleep(1000);
    }
    ::close(file);
  });
  write_text_file(path, "bytes");
  reader.join();
  EXPECT_EQ(read, "bytes");
  EXPECT_EQ(kind_of(path), S_IFIFO);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, ADeviceStaysADevice) {
  const ScratchFolder folder;
  const fs::path null = folder / "null", full = folder / "full", link = folder / "link";
  if (!make_device(null, kNull) || !make_device(full, kFull)) GTEST_SKIP() << "no device can be made here";
  write_text_file(null, "gone");
  fs::create_symlink("null", link);
  write_text_file(link, "gone");
  { OutputFile torn(null); }
  try {
    write_text_file(full, "no room");
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_EQ(error.problem().found, "No space left on device");  // does not mention the disk, which has room
  }
  EXPECT_EQ(kind_of(null), S_IFCHR);
  EXPECT_EQ(kind_of(full), S_IFCHR);
  EXPECT_EQ(kind_of(link), S_IFLNK);
}

TEST(OutputFile, ALinkStaysALinkToTheNewBytes) {
  const ScratchFolder folder;
  const fs::path target = folder.write("elsewhere/target", "before");
  fs::create_symlink("elsewhere/target", folder / "near");
  fs::create_symlink(folder / "near", folder / "far");
  fs::create_symlink("elsewhere/new", folder / "dangling");
  write_text_file(folder / "far", "after");
  write_text_file(folder / "dangling", "new");
  EXPECT_EQ(read_text_file(target), "after");
  EXPECT_EQ(read_text_file(folder / "elsewhere/new"), "new");
  for (const char* name : {"near", "far", "dangling"}) EXPECT_EQ(kind_of(folder / name), S_IFLNK) << name;
}

TEST(OutputFile, ADescriptorOfItsOwnGoesOnWhereItStands) {
  const ScratchFolder folder;
  const int file = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::write(file, "a line, ", 8), 8);
  fs::create_symlink("/proc/self/fd/" + std::to_string(file), folder / "out");  // as /dev/stdout is
  write_text_file(folder / "out", "another");
  ASSERT_EQ(::write(file, ", a third", 9), 9);
  ::close(file);
  EXPECT_EQ(read_text_file(folder / "log"), "a line, another, a third");
  EXPECT_EQ(kind_of(folder / "out"), S_IFLNK);

  std::array<int, 2> sockets{};  // sockets cannot be opened by name
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
  write_text_file("/dev/fd/" + std::to_string(sockets[0]), "sent");
  std::array<char, 8> bytes{};
  EXPECT_EQ(::read(sockets[1], bytes.data(), bytes.size()), 4);
  for (const int each : sockets) ::close(each);
}

TEST(OutputFile, ANamelessOneIsReadAgainAndLeavesNothing) {
  const ScratchFolder folder;
  OutputFile file = OutputFile::nameless(folder.path());
  file.write("header, body");
  file.write_at(0, std::as_bytes(std::span("HEADER", 6)));
  const InputFile again = std::move(file).reopen();
  EXPECT_TRUE(fs::is_empty(folder.path()));
  ASSERT_EQ(again.size_bytes(), 12U);
  std::string text(12, ' ');
  again.read_at(0, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "HEADER, body");
  EXPECT_THROW(OutputFile::nameless(folder / "nowhere"), EnvironmentError);
}

TEST(OutputFile, TemporaryFilesLieWhereTheEnvironmentSays) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", "/scratch", 1);
  EXPECT_EQ(temporary_directory(), "/scratch");
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_directory(temporary_directory()));
  if (before != nullptr) ::setenv("TMPDIR", kept.c_str(), 1);
}

TEST(OutputFile, WhatCannotBeAFileIsSaidAtOnce) {
  const ScratchFolder folder;
  folder.make("directory");
  fs::create_symlink("loop", folder / "loop");
  for (const fs::path& path : {folder / "directory", folder / "loop", folder / "nowhere/file"}) {
    try {
      const OutputFile file(path);
      ADD_FAILURE() << path;
    } catch (const EnvironmentError& error) {
      EXPECT_EQ(error.problem().where, path.string());
    }
  }
  EXPECT_EQ(kind_of(folder / "loop"), S_IFLNK);
}

}  // namespace
}  // namespace plimsoll
