// Files: bounded reads, and writes that are never half there (written aside, synced, renamed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/hash.h"

namespace plimsoll {

// A file opened for reading at any offset (pread: thread-safe, no shared cursor). Throws DataError if it cannot be
// opened; for a pipe that nobody writes to at once, too.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  int descriptor() const { return descriptor_; }
  // Fills `out` from `offset`; throws DataError if the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_bytes_ = 0;
};

// The length of a file and the fingerprint of its bytes (base/hash.h).
struct FileSum {
  std::uint64_t bytes = 0, hash = 0;
  friend bool operator==(const FileSum&, const FileSum&) = default;
};

// Returns where an OutputFile keeps its bytes until it is closed: beside `path`, under a name that nobody else uses.
std::filesystem::path aside_path(const std::filesystem::path& path);

// Replaces the file `path` in one step, at `close`: until then bytes go to aside_path(path), which is removed if
// `close` is not reached. Two processes cannot write the same file at once: the second gets an EnvironmentError. A link
// stays a link: what it points to is replaced. What is there and no regular file (a pipe, a device, one of this
// process's descriptors such as /dev/stdout) is written to as it is, neither synced nor renamed nor removed. Writes by
// write(2), no buffer of its own. Throws EnvironmentError (disk full, permissions) naming path and bytes free.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Over what was written before, in a regular file.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // After the last byte: fsync, rename to `path`, fsync of the directory. Returns the sum of what `write` wrote; bytes
  // of `write_at` are not in it.
  FileSum close();

 private:
  void open_aside();

  std::filesystem::path path_;
  std::filesystem::path aside_{};  // empty: written straight through
  int descriptor_ = -1;
  Hasher hasher_;
  std::uint64_t written_bytes_ = 0;
};

// The whole file as text; throws DataError if missing or longer than `limit_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes = 1ULL << 30);

// An OutputFile of one piece.
FileSum write_text_file(const std::filesystem::path& path, std::string_view text);

// Whether something is at `path`, links followed, that is no regular file: only OutputFile's bytes can be put there,
// and not read again.
bool is_special_file(const std::filesystem::path& path);

// Puts the complete directory `aside` in the place of `path`, with all that `path` held gone. At every moment one of
// the two stands there, where the file system can exchange names; elsewhere `aside` alone is whole for a moment. Throws
// EnvironmentError.
void replace_directory(const std::filesystem::path& aside, const std::filesystem::path& path);

// fsync on a directory, so that names created or renamed in it survive a power cut.
void sync_directory(const std::filesystem::path& directory);

}  // namespace plimsoll
