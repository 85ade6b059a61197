// OffloadFile: a nameless file that holds tensors that do not fit in memory, for as long as the process lives.
//
// Pieces of other files can be read as if they lay in it: weights that do not change are read in the model's own file.
//
// It has no name in its directory (O_TMPFILE, or unlinked at once), so it is gone however the process ends; it is
// allocated completely when it is made, so that a full disk is noticed then and not hours later. It is never mapped,
// because mapped pages would count as resident. If the file system allows it, reads and writes bypass the page cache
// (O_DIRECT, through one aligned buffer), since its cached pages would be charged to the process's cgroup and evict
// other pages; otherwise each block is written out and dropped from the cache after use.
//
//   OffloadFile file("/scratch", layout.bytes());
//   file.write(0, bytes);                             // offsets are multiples of kOffloadAlignment
//   file.read(0, bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/transfer_speed.h"

namespace plimsoll {

// The alignment of every tensor in the file. A tensor's last block belongs to it alone.
inline constexpr std::size_t kOffloadAlignment = 4096;
// The most bytes that one system call moves, and the size of the buffer that they pass through.
inline constexpr std::size_t kOffloadBlockBytes = 1 << 20;

// The place of the first piece of another file; those of the nameless file are below it.
inline constexpr std::uint64_t kOutsideOffset = std::uint64_t{1} << 62;

// Bytes that lie in another file.
struct OutsidePiece {
  // Widens 2-byte elements to 4 bytes each.
  using Widen = void (*)(std::span<const std::byte> narrow, std::span<std::byte> wide);

  std::uint64_t offset = 0;  // where reads find it: kOutsideOffset or more, a multiple of kOffloadAlignment
  std::size_t bytes = 0;     // after widening; no more can be read. A multiple of 4 if `widen` is set
  std::filesystem::path file;
  int descriptor = -1;   // of the file; open when the OffloadFile is made
  std::uint64_t at = 0;  // in the file
  Widen widen = nullptr;
};

class OffloadFile {
 public:
  // `outside` is sorted by offset. Throws EnvironmentError if the directory cannot hold a file of that size.
  OffloadFile(const std::filesystem::path& directory, std::uint64_t bytes, std::vector<OutsidePiece> outside = {});
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  // Names the file that has those bytes, for messages: "--offload /scratch", or a path.
  std::string where(std::uint64_t offset) const;
  std::uint64_t bytes() const { return bytes_; }
  // False if the file system has no O_DIRECT (old tmpfs, some network file systems).
  bool is_direct() const { return own_.direct; }

  // Transfer all of `bytes` at `offset` without allocating. They return 0 or errno; EIO if the file ends early. Only
  // one call may run at a time, because all use one buffer. Pieces of other files are only read.
  int read(std::uint64_t offset, std::span<std::byte> bytes) noexcept;
  int write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

  // Passes the `size` bytes at `offset` to `visit` in blocks, in order, for copying to and from other files. With
  // `changes`, what `visit` leaves in a block is written back; the block is not read then. Throws EnvironmentError.
  using Visit = std::function<void(std::span<std::byte>)>;
  void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit);

 private:
  struct Opened {
    int descriptor = -1;
    bool direct = false;
  };
  static Opened open_again(const OutsidePiece& piece);
  void close_all() noexcept;
  int move_block(const Opened& file, std::uint64_t offset, std::size_t size, bool writes) noexcept;
  const OutsidePiece& piece_at(std::uint64_t offset) const;
  int read_outside(std::uint64_t offset, std::span<std::byte> bytes, std::size_t room) noexcept;

  std::filesystem::path directory_;
  std::uint64_t bytes_;
  Opened own_;
  std::vector<OutsidePiece> outside_;
  std::vector<Opened> outside_files_;  // of each piece; pieces of one file share it
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> block_;  // aligned, every page of it touched
};

// Throws EnvironmentError for a failed transfer; `where` names the file; `what_for` is, for example, "reading
// 'a.weight.exp_avg' back".
[[noreturn]] void throw_offload_error(const std::string& where, const std::string& what_for, int error);

// Writes and reads up to 64 MiB in that directory, for about half a second at most. Throws EnvironmentError if the
// directory is not writable.
TransferSpeed measure_disk(const std::filesystem::path& directory);

}  // namespace plimsoll
