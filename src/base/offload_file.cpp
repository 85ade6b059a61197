#include "base/offload_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

namespace plimsoll {
namespace {

std::string free_space(const std::filesystem::path& directory) {
  std::error_code error;
  const auto space = std::filesystem::space(directory, error);
  return error ? std::string() : fmt::format(", {} free there", format_bytes(space.available));
}

[[noreturn]] void throw_cannot_make(const std::filesystem::path& directory, std::uint64_t bytes, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw EnvironmentError(
      {.what = "the offload file cannot be made",
       .where = fmt::format("--offload {}", directory.string()),
       .found = fmt::format("{}{}", std::strerror(error), full ? free_space(directory) : std::string()),
       .allowed = fmt::format("a directory that can be written, with room for {}", format_bytes(bytes)),
       .remedy = full             ? "free some disk space, pass another directory, or give a larger --budget"
                 : error == EFBIG ? "raise the limit on the size of files (ulimit -f), or pass another directory"
                                  : "pass a directory that exists and can be written"});
}

}  // namespace

void OffloadFile::Free::operator()(std::byte* memory) const { std::free(memory); }

OffloadFile::OffloadFile(const std::filesystem::path& directory, std::uint64_t bytes)
    : directory_(directory), bytes_(round_up(bytes, kOffloadAlignment)) {
  descriptor_ = open_nameless(directory, O_DIRECT);
  direct_ = descriptor_ >= 0;
  if (!direct_ && errno == EINVAL) descriptor_ = open_nameless(directory, 0);
  if (descriptor_ < 0) throw_cannot_make(directory, bytes_, errno);
  const int error = bytes_ == 0 ? 0 : ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes_));
  if (error != 0) {
    ::close(std::exchange(descriptor_, -1));
    throw_cannot_make(directory, bytes_, error);
  }
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(kOffloadAlignment, kOffloadBlockBytes)));
  if (block_ == nullptr) {
    ::close(std::exchange(descriptor_, -1));
    throw std::bad_alloc();
  }
  std::memset(block_.get(), 0, kOffloadBlockBytes);
}

OffloadFile::~OffloadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int OffloadFile::move_block(std::uint64_t offset, std::size_t size, bool writes) noexcept {
  const std::size_t whole = round_up(size, kOffloadAlignment);
  for (std::size_t done = 0; done < whole;) {
    std::byte* const place = block_.get() + done;
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t count =
        writes ? ::pwrite(descriptor_, place, whole - done, at) : ::pread(descriptor_, place, whole - done, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return EIO;
    done += static_cast<std::size_t>(count);
    // A direct transfer that ended within a block of the disk has to repeat that block.
    if (direct_) done -= done % kOffloadAlignment;
    if (direct_ && done == 0) return EIO;
  }
  if (!direct_) {
    const auto at = static_cast<off_t>(offset), length = static_cast<off_t>(whole);
    if (writes) {
      ::sync_file_range(descriptor_, at, length,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    ::posix_fadvise(descriptor_, at, length, POSIX_FADV_DONTNEED);
  }
  return 0;
}

int OffloadFile::read(std::uint64_t offset, std::span<std::byte> bytes) noexcept {
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t size = std::min(kOffloadBlockBytes, bytes.size() - done);
    if (const int error = move_block(offset + done, size, false); error != 0) return error;
    std::memcpy(bytes.data() + done, block_.get(), size);
    done += size;
  }
  return 0;
}

int OffloadFile::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t size = std::min(kOffloadBlockBytes, bytes.size() - done);
    std::memcpy(block_.get(), bytes.data() + done, size);
    if (const int error = move_block(offset + done, size, true); error != 0) return error;
    done += size;
  }
  return 0;
}

void OffloadFile::visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) {
  for (std::size_t done = 0; done < size;) {
    const std::size_t now = std::min(kOffloadBlockBytes, size - done);
    const auto move = [&](bool writes) {
      const int error = move_block(offset + done, now, writes);
      if (error != 0) throw_offload_error(directory_, writes ? "writing a state" : "reading a state", error);
    };
    if (!changes) move(false);
    visit({block_.get(), now});
    if (changes) move(true);
    done += now;
  }
}

void throw_offload_error(const std::filesystem::path& directory, const std::string& what_for, int error) {
  throw EnvironmentError({.what = "the offload file failed",
                          .where = fmt::format("--offload {}, {}", directory.string(), what_for),
                          .found = std::strerror(error),
                          .remedy = "check the disk, or pass a directory on another one"});
}

TransferSpeed measure_disk(const std::filesystem::path& directory) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kPiece = 4 * kMiB, kPieces = 16;
  constexpr double kLongest = 0.25;  // seconds, of each direction
  OffloadFile file(directory, kPiece * kPieces);
  TransferSpeed speed;
  std::size_t written = 0;
  for (const bool writes : {true, false}) {
    const auto begin = Clock::now();
    double seconds = 0;
    std::size_t done = 0;
    const std::size_t most = writes ? kPieces : written;
    while (done < most && (done == 0 || seconds < kLongest)) {
      file.visit(done * kPiece, kPiece, writes, [](std::span<std::byte>) {});
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      ++done;
    }
    const double rate = static_cast<double>(done * kPiece) / std::max(seconds, 1e-9);
    (writes ? speed.write_bytes_per_second : speed.read_bytes_per_second) = rate;
    if (writes) written = done;
  }
  return speed;
}

}  // namespace plimsoll
