// OffloadFile: a nameless file that holds, while a process lives, what would not fit in its memory.
//
// It has no name in its directory (O_TMPFILE, or unlinked at once), so that it is gone however the process ends; all of
// it is allocated when it is made, so that a disk that is too full is known then and not hours later. It is never
// mapped: mapped pages would count as resident. Where the file system allows it, reads and writes bypass the page cache
// (O_DIRECT, through one aligned buffer), since pages cached for it would be charged to the same cgroup as the process
// and push other pages out; elsewhere what has passed is written out and dropped from the cache block by block.
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

// Of every tensor's place in the file. A tensor's last block belongs to it alone.
inline constexpr std::size_t kOffloadAlignment = 4096;
// Most bytes that one call to the system moves; the buffer that they pass through.
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
  // False where the file system has no O_DIRECT (tmpfs of old, some network file systems).
  bool is_direct() const { return direct_; }

  // All of `bytes` at `offset`. Nothing is allocated. Returns 0 or what errno says; EIO where the file ends early. One
  // call at a time: all pass through one buffer.
  int read(std::uint64_t offset, std::span<std::byte> bytes) noexcept;
  int write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

  // The `size` bytes at `offset` in blocks, in order, each shown to `visit`, for copying to and from other files.
  // `changes`: what `visit` leaves in a block is written back; the block need not be read then. Throw EnvironmentError.
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

// EnvironmentError of a transfer that failed; `what_for`: "reading 'embeddings.weight.exp_avg' back".
[[noreturn]] void throw_offload_error(const std::filesystem::path& directory, const std::string& what_for, int error);

// Writes and reads up to 64 MiB in that directory, for at most about half a second. Throws EnvironmentError if nothing
// can be written there.
TransferSpeed measure_disk(const std::filesystem::path& directory);

}  // namespace plimsoll
