// Files: bounded reads, and writes that are never left incomplete (written aside, synced, renamed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/hash.h"

namespace plimsoll {

// A file opened for reading at any offset (pread: thread-safe, no shared cursor). Throws DataError if it cannot be
// opened, or if it is a pipe without a writer; EnvironmentError if the process may open no more files.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  // Takes over a descriptor that can be read; `path` names it in messages.
  InputFile(std::filesystem::path path, int descriptor);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  int descriptor() const { return descriptor_; }
  // Fills `out` from `offset`; throws DataError if the file ends too early.
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

// Removes the incomplete OutputFiles that killed processes left in `directory`, for the names that `ours` accepts. It
// does not touch a file that a living process is writing.
void remove_abandoned_files(const std::filesystem::path& directory,
                            const std::function<bool(const std::string& name)>& ours);

// Replaces the file `path` in one step, at `close`: until then bytes go to aside_path(path), which is removed if
// `close` is not reached. Two processes cannot write the same file at once: the second gets an EnvironmentError. A link
// stays a link, and its target is replaced. Something that exists and is not a regular file (a pipe, a device, one of
// this process's descriptors such as /dev/stdout) is written directly, without sync, rename or removal. Writes use
// write(2) without a buffer. Throws EnvironmentError (disk full, permissions) naming path and bytes free.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  // Makes a file without a name in `directory`, which is gone however the process ends. It is never closed, but
  // reopened.
  static OutputFile nameless(const std::filesystem::path& directory);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Overwrites bytes that were written before, in a regular file.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Call after the last byte: syncs the file, renames it to `path`, syncs the directory. Returns the sum of the bytes
  // that `write` wrote; those of `write_at` are not included.
  FileSum close();
  // Ends the writing of a nameless file and returns it for reading.
  InputFile reopen() &&;

 private:
  OutputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  void open_aside();
  void forget_aside();

  std::filesystem::path path_;
  std::filesystem::path aside_{};   // empty: `path` is written directly
  std::filesystem::path listed_{};  // the same among unfinished files; made first, since destructors do not allocate
  int descriptor_ = -1;
  Hasher hasher_;
  std::uint64_t written_bytes_ = 0;
};

// Removes what the OutputFiles of this process have written so far, in a process that ends without their destructors.
void remove_unfinished_files();

// A file that a run appends to as it proceeds. Allocates only when it is opened.
class AppendedFile {
 public:
  // `fresh`: the file must not exist; otherwise it must. Throws EnvironmentError. The file is locked against others.
  AppendedFile(std::filesystem::path path, bool fresh);
  // Throws EnvironmentError if another AppendedFile, perhaps of another process, has the file open.
  static void refuse_if_open(const std::filesystem::path& path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes the parts one after the other, by one system call as long as the disk has room. Throws EnvironmentError.
  void write(std::initializer_list<std::string_view> parts);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Opens a file without a name in `directory` for reading and writing (O_TMPFILE, or unlinked at once); returns -1 and
// sets errno if that is impossible.
int open_nameless(const std::filesystem::path& directory, int flags = 0);

// Returns the directory for short-lived files: TMPDIR, or /var/tmp, which unlike /tmp is on a disk.
std::filesystem::path temporary_directory();

// Reads the whole file as text; throws DataError if it is missing or longer than `limit_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes = 1ULL << 30);

// Writes all of `text` through an OutputFile.
FileSum write_text_file(const std::filesystem::path& path, std::string_view text);

// Does the same for a text too long to hold in memory: `make` passes it on in parts, which may be small.
using TextSink = std::function<void(std::string_view)>;
void write_text_parts(const std::filesystem::path& path, const std::function<void(const TextSink&)>& make);

// True if `path`, after following links, exists and is not a regular file: OutputFile can write to it, but it cannot be
// read again.
bool is_special_file(const std::filesystem::path& path);

// Replaces `path` by the complete directory `aside` and removes the old contents. One of the two is in place at every
// moment if the file system can exchange names; otherwise `path` is missing for a moment while `aside` is complete.
// Throws EnvironmentError.
void replace_directory(const std::filesystem::path& aside, const std::filesystem::path& path);

// Syncs a directory (fsync), so that names created or renamed in it survive a power failure.
void sync_directory(const std::filesystem::path& directory);

}  // namespace plimsoll
