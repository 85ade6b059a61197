// OffloadFile: a nameless file that holds tensors that do not fit in memory, for as long as the process lives.
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

#include "base/transfer_speed.h"

namespace plimsoll {

// The alignment of every tensor in the file. A tensor's last block belongs to it alone.
inline constexpr std::size_t kOffloadAlignment = 4096;
// The most bytes that one system call moves, and the size of the buffer that they pass through.
inline constexpr std::size_t kOffloadBlockBytes = 1 << 20;

class OffloadFile {
 public:
  // Throws EnvironmentError if the directory cannot hold a file of that size.
  OffloadFile(const std::filesystem::path& directory, std::uint64_t bytes);
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  std::uint64_t bytes() const { return bytes_; }
  // False if the file system has no O_DIRECT (old tmpfs, some network file systems).
  bool is_direct() const { return direct_; }

  // Transfer all of `bytes` at `offset` without allocating. They return 0 or errno; EIO if the file ends early. Only
  // one call may run at a time, because all use one buffer.
  int read(std::uint64_t offset, std::span<std::byte> bytes) noexcept;
  int write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

  // Passes the `size` bytes at `offset` to `visit` in blocks, in order, for copying to and from other files. With
  // `changes`, what `visit` leaves in a block is written back; the block is not read then. Throws EnvironmentError.
  using Visit = std::function<void(std::span<std::byte>)>;
  void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit);

 private:
  int move_block(std::uint64_t offset, std::size_t size, bool writes) noexcept;

  std::filesystem::path directory_;
  std::uint64_t bytes_;
  int descriptor_ = -1;
  bool direct_ = false;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> block_;  // aligned, every page of it touched
};

// Throws EnvironmentError for a failed transfer; `what_for`: "reading 'embeddings.weight.exp_avg' back".
[[noreturn]] void throw_offload_error(const std::filesystem::path& directory, const std::string& what_for, int error);

// Writes and reads up to 64 MiB in that directory, for about half a second at most. Throws EnvironmentError if the
// directory is not writable.
TransferSpeed measure_disk(const std::filesystem::path& directory);

}  // namespace plimsoll
