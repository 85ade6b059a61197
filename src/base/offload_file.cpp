#include "base/offload_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
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

OffloadFile::OffloadFile(const std::filesystem::path& directory, std::uint64_t bytes, std::vector<OutsidePiece> outside)
    : directory_(directory), bytes_(round_up(bytes, kOffloadAlignment)), outside_(std::move(outside)) {
  own_.descriptor = open_nameless(directory, O_DIRECT);
  own_.direct = own_.descriptor >= 0;
  if (!own_.direct && errno == EINVAL) own_.descriptor = open_nameless(directory, 0);
  if (own_.descriptor < 0) throw_cannot_make(directory, bytes_, errno);
  try {
    const int error = bytes_ == 0 ? 0 : ::posix_fallocate(own_.descriptor, 0, static_cast<off_t>(bytes_));
    if (error != 0) throw_cannot_make(directory, bytes_, error);
    std::map<int, Opened> opened;
    outside_files_.reserve(outside_.size());
    for (const OutsidePiece& piece : outside_) {
      const auto [position, is_new] = opened.try_emplace(piece.descriptor);
      if (is_new) position->second = open_again(piece);
      outside_files_.push_back(position->second);
    }
    block_.reset(static_cast<std::byte*>(std::aligned_alloc(kOffloadAlignment, kOffloadBlockBytes)));
    if (block_ == nullptr) throw std::bad_alloc();
  } catch (...) {
    close_all();
    throw;
  }
  std::memset(block_.get(), 0, kOffloadBlockBytes);
}

OffloadFile::~OffloadFile() { close_all(); }

void OffloadFile::close_all() noexcept {
  if (own_.descriptor >= 0) ::close(std::exchange(own_.descriptor, -1));
  std::ranges::sort(outside_files_, {}, &Opened::descriptor);
  for (std::size_t i = 0; i < outside_files_.size(); ++i) {
    if (i == 0 || outside_files_[i].descriptor != outside_files_[i - 1].descriptor) {
      ::close(outside_files_[i].descriptor);
    }
  }
  outside_files_.clear();
}

// Opens the file that a descriptor refers to, even if its path now leads to another one.
OffloadFile::Opened OffloadFile::open_again(const OutsidePiece& piece) {
  const std::string path = fmt::format("/proc/self/fd/{}", piece.descriptor);
  Opened file{.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT), .direct = true};
  if (file.descriptor < 0 && errno == EINVAL) {
    file = {.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC), .direct = false};
  }
  if (file.descriptor < 0) {
    throw EnvironmentError({.what = "a weight file cannot be opened again to read the weights from it",
                            .where = piece.file.string(),
                            .found = std::strerror(errno),
                            .allowed = "a file that can be read, and /proc",
                            .remedy = "mount /proc, or omit --offload"});
  }
  return file;
}

std::string OffloadFile::where(std::uint64_t offset) const {
  return offset < kOutsideOffset ? fmt::format("--offload {}", directory_.string()) : piece_at(offset).file.string();
}

const OutsidePiece& OffloadFile::piece_at(std::uint64_t offset) const {
  return *std::prev(std::ranges::upper_bound(outside_, offset, {}, &OutsidePiece::offset));
}

// Moves whole blocks through the buffer. A read is satisfied with `size` bytes, since a file may end within a block.
int OffloadFile::move_block(const Opened& file, std::uint64_t offset, std::size_t size, bool writes) noexcept {
  const std::size_t whole = round_up(size, kOffloadAlignment), needed = writes ? whole : size;
  for (std::size_t done = 0; done < needed;) {
    std::byte* const place = block_.get() + done;
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t count =
        writes ? ::pwrite(file.descriptor, place, whole - done, at) : ::pread(file.descriptor, place, whole - done, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return EIO;
    done += static_cast<std::size_t>(count);
    // A direct transfer that ended within a block of the disk has to repeat that block.
    if (file.direct && done < needed) {
      done -= done % kOffloadAlignment;
      if (done == 0) return EIO;
    }
  }
  if (!file.direct) {
    const auto at = static_cast<off_t>(offset), length = static_cast<off_t>(whole);
    if (writes) {
      ::sync_file_range(file.descriptor, at, length,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    ::posix_fadvise(file.descriptor, at, length, POSIX_FADV_DONTNEED);
  }
  return 0;
}

int OffloadFile::read(std::uint64_t offset, std::span<std::byte> bytes) noexcept {
  if (offset >= kOutsideOffset) return read_outside(offset, bytes, kOffloadBlockBytes);
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t size = std::min(kOffloadBlockBytes, bytes.size() - done);
    if (const int error = move_block(own_, offset + done, size, false); error != 0) return error;
    std::memcpy(bytes.data() + done, block_.get(), size);
    done += size;
  }
  return 0;
}

// Reads through the first `room` bytes of the buffer.
int OffloadFile::read_outside(std::uint64_t offset, std::span<std::byte> bytes, std::size_t room) noexcept {
  const OutsidePiece& piece = piece_at(offset);
  if (offset - piece.offset + bytes.size() > piece.bytes) return EINVAL;
  const Opened& file = outside_files_[static_cast<std::size_t>(&piece - outside_.data())];
  const std::size_t widening = piece.widen == nullptr ? 1 : 2;
  for (std::uint64_t first = offset - piece.offset; !bytes.empty();) {
    const std::uint64_t from = piece.at + first / widening, begin = from / kOffloadAlignment * kOffloadAlignment;
    const auto before = static_cast<std::size_t>(from - begin);
    const std::size_t most = (room - before) / 2 * 2;  // whole numbers of elements
    const std::size_t narrow = std::min(most, bytes.size() / widening);
    if (const int error = move_block(file, begin, before + narrow, false); error != 0) return error;
    const std::span<const std::byte> read(block_.get() + before, narrow);
    const std::span<std::byte> wide = bytes.first(narrow * widening);
    if (piece.widen == nullptr) {
      std::memcpy(wide.data(), read.data(), narrow);
    } else {
      piece.widen(read, wide);
    }
    bytes = bytes.subspan(wide.size());
    first += wide.size();
  }
  return 0;
}

int OffloadFile::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  if (offset >= kOutsideOffset) return EROFS;
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t size = std::min(kOffloadBlockBytes, bytes.size() - done);
    std::memcpy(block_.get(), bytes.data() + done, size);
    if (const int error = move_block(own_, offset + done, size, true); error != 0) return error;
    done += size;
  }
  return 0;
}

void OffloadFile::visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) {
  const auto throw_if = [&](int error, bool writes) {
    if (error != 0) throw_offload_error(where(offset), writes ? "writing a tensor" : "reading a tensor", error);
  };
  if (offset >= kOutsideOffset) {
    throw_if(changes ? EROFS : 0, true);
    constexpr std::size_t kHalf = kOffloadBlockBytes / 2;  // one is read through, the other is passed on
    for (std::size_t done = 0; done < size;) {
      const std::span<std::byte> now(block_.get() + kHalf, std::min(kHalf, size - done));
      throw_if(read_outside(offset + done, now, kHalf), false);
      visit(now);
      done += now.size();
    }
    return;
  }
  for (std::size_t done = 0; done < size;) {
    const std::size_t now = std::min(kOffloadBlockBytes, size - done);
    if (!changes) throw_if(move_block(own_, offset + done, now, false), false);
    visit({block_.get(), now});
    if (changes) throw_if(move_block(own_, offset + done, now, true), true);
    done += now;
  }
}

void throw_offload_error(const std::string& where, const std::string& what_for, int error) {
  throw EnvironmentError({.what = "a tensor cannot be moved between memory and its file",
                          .where = fmt::format("{}, {}", where, what_for),
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
