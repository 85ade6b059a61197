#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {
namespace {

std::string free_space(const std::filesystem::path& path) {
  std::error_code error;
  const auto space = std::filesystem::space(path.has_parent_path() ? path.parent_path() : ".", error);
  return error ? std::string() : fmt::format(", {} free there", format_bytes(space.available));
}

// `doing` says what failed: "write a file".
[[noreturn]] void throw_write_error(const std::filesystem::path& path, std::string_view doing, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  throw EnvironmentError(
      {.what = fmt::format("cannot {}", doing),
       .where = path.string(),
       .found =
           fmt::format("{}{}", std::strerror(error), full && !is_special_file(path) ? free_space(path) : std::string()),
       .remedy = full             ? "free some disk space, or write elsewhere"
                 : error == EFBIG ? "raise the limit on the size of files (ulimit -f), or write elsewhere"
                 : error == EPIPE ? "its reader ended early: let it read to the end"
                                  : "check the path and its permissions"});
}

EnvironmentError written_by_another(const std::filesystem::path& path, std::string found) {
  return EnvironmentError({.what = "another process is writing this file",
                           .where = path.string(),
                           .found = std::move(found),
                           .remedy = "wait for it to end, or write elsewhere"});
}

constexpr std::string_view kAsideSuffix = ".plimsoll.tmp";

// Returns whether the path still names the file that was opened; another process may have renamed or removed it.
bool is_named(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

// Returns the N of /proc/self/fd/N, which /dev/stdout links to; negative for other paths. Opening that name again would
// overwrite what was written there before, and fails on a socket.
int own_descriptor(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::equivalent(path.parent_path(), "/proc/self/fd", error)) return -1;
  const std::string name = path.filename();
  int number = -1;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  return problem == std::errc() && end == name.data() + name.size() ? number : -1;
}

// Resolves links, including links to links; a link to a missing file means a new file there.
std::filesystem::path link_target(std::filesystem::path path) {
  std::error_code error;
  constexpr int kMostLinks = 40;  // as in the kernel
  for (int i = 0; i < kMostLinks && own_descriptor(path) < 0 && std::filesystem::is_symlink(path, error); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path;
}

// Files of this process that are incomplete.
std::mutex unfinished_mutex;
std::set<std::filesystem::path>& unfinished() {
  static std::set<std::filesystem::path> files;
  return files;
}

// Finishes a replacement: renames the synced file `aside` to `path` beside it and syncs the directory.
void rename_into_place(const std::filesystem::path& aside, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  if (error) throw_write_error(path, "rename a file", error.value());
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer. The flag changes nothing for regular files.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat info {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) {
    const int open_error = errno;
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    if (open_error == EMFILE || open_error == ENFILE || open_error == ENOMEM) {  // the file may well be right
      throw EnvironmentError(
          {.what = "cannot open a file",
           .where = path.string(),
           .found = std::strerror(open_error),
           .remedy = "raise the limits of open files and memory (ulimit -a), or close other programs"});
    }
    throw DataError({.what = "cannot open a file",
                     .where = path.string(),
                     .found = std::strerror(open_error),
                     .remedy = "check the path and its permissions"});
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    throw DataError({.what = "not a regular file",
                     .where = path.string(),
                     .found = S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe",
                     .allowed = "a file",
                     .remedy = "pass a file that can be read at any position"});
  }
  size_bytes_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::InputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
  struct stat info {};
  if (::fstat(descriptor_, &info) == 0) size_bytes_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count < 0) {
        throw DataError({.what = "a file cannot be read",
                         .where = path_.string(),
                         .found = std::strerror(errno),
                         .allowed = counted(out.size(), "byte") + " from byte " + std::to_string(offset),
                         .remedy = "check the disk, and copy or download the file again"});
      }
      const bool shrank = offset + out.size() <= size_bytes_;  // since it was opened
      throw DataError({.what = shrank ? "a file has been cut off while it was in use" : "a file ends too early",
                       .where = path_.string(),
                       .found = counted(shrank ? offset + done : size_bytes_, "byte"),
                       .allowed = shrank ? counted(size_bytes_, "byte") + ", as when it was opened"
                                         : "at least " + counted(offset + out.size(), "byte"),
                       .remedy = shrank ? "restore the file, and leave it alone until the command has ended"
                                        : "the file is torn: copy or download it again"});
    }
    done += static_cast<std::size_t>(count);
  }
}

std::filesystem::path aside_path(const std::filesystem::path& path) {
  return path.string() + std::string(kAsideSuffix);
}

void remove_abandoned_files(const std::filesystem::path& directory,
                            const std::function<bool(const std::string& name)>& ours) {
  std::error_code error;
  std::vector<std::filesystem::path> abandoned;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(kAsideSuffix) && ours(name.substr(0, name.size() - kAsideSuffix.size()))) {
      abandoned.push_back(entry->path());
    }
  }
  for (const std::filesystem::path& path : abandoned) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    // The lock is held while it is removed, as OutputFile does.
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_named(descriptor, path)) ::unlink(path.c_str());
    ::close(descriptor);
  }
}

void remove_unfinished_files() {
  const std::lock_guard lock(unfinished_mutex);
  for (const std::filesystem::path& path : unfinished()) ::unlink(path.c_str());
}

// Delegates, so that an exception in its body runs the destructor.
OutputFile::OutputFile(const std::filesystem::path& path) : OutputFile(path, -1) {
  if (is_special_file(path)) {
    const int own = own_descriptor(link_target(path));
    descriptor_ = own >= 0 ? ::fcntl(own, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ < 0) throw_write_error(path, "write to a special file", errno);
    return;
  }
  path_ = link_target(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) throw_write_error(path, "write a file", EISDIR);
  if (std::filesystem::is_symlink(path_, ignored)) throw_write_error(path, "write a file", ELOOP);
  open_aside();
}

// A killed process may have left the file; nobody holds its lock then, and it is overwritten. If another process
// renames or removes it meanwhile, the name may refer to another file than the one opened; then this tries again.
void OutputFile::open_aside() {
  std::filesystem::path aside = aside_path(path_);
  listed_ = std::filesystem::absolute(aside);
  for (;;) {
    descriptor_ = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw_write_error(path_, "create a file", errno);
    const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      ::close(std::exchange(descriptor_, -1));
      throw written_by_another(path_, fmt::format("{}, locked by that process", aside.string()));
    }
    if (is_named(descriptor_, aside)) break;
    ::close(std::exchange(descriptor_, -1));
  }
  aside_ = std::move(aside);
  {
    const std::lock_guard lock(unfinished_mutex);
    unfinished().insert(listed_);
  }
  if (::ftruncate(descriptor_, 0) != 0) throw_write_error(path_, "create a file", errno);
}

OutputFile OutputFile::nameless(const std::filesystem::path& directory) {
  const int descriptor = open_nameless(directory);
  if (descriptor < 0) throw_write_error(directory, "create a temporary file", errno);
  return OutputFile(directory / "a temporary file", descriptor);
}

OutputFile::~OutputFile() {
  // Done while the lock is held, so that nobody else's file is removed.
  if (!aside_.empty()) {
    ::unlink(aside_.c_str());
    forget_aside();
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::forget_aside() {
  const std::lock_guard lock(unfinished_mutex);
  unfinished().erase(listed_);
  aside_.clear();
}

void OutputFile::write(std::span<const std::byte> bytes) {
  hasher_.add(bytes);
  written_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_write_error(path_, "write a file", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_write_error(path_, "write a file", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

FileSum OutputFile::close() {
  const FileSum sum{written_bytes_, hasher_.digest()};
  if (!aside_.empty() && ::fsync(descriptor_) != 0) throw_write_error(path_, "sync a file", errno);
  if (!aside_.empty()) {
    rename_into_place(aside_, path_);
    forget_aside();
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_write_error(path_, "close a file", errno);
  return sum;
}

InputFile OutputFile::reopen() && { return InputFile(path_, std::exchange(descriptor_, -1)); }

AppendedFile::AppendedFile(std::filesystem::path path, bool fresh) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | (fresh ? O_CREAT | O_EXCL : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) {
    throw EnvironmentError({.what = "cannot open a log file", .where = path_.string(), .found = std::strerror(errno)});
  }
  ::flock(descriptor_, LOCK_EX | LOCK_NB);  // some file systems have no locks
}

void AppendedFile::refuse_if_open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return;
  const bool open = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  if (!open) return;
  throw written_by_another(path, "the lock of that process");
}

AppendedFile::~AppendedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendedFile::write(std::initializer_list<std::string_view> parts) {
  constexpr std::size_t kMostParts = 8;
  check(parts.size() <= kMostParts, "a line has few parts");
  std::array<iovec, kMostParts> vectors{};
  std::size_t count = 0;
  for (const std::string_view part : parts) vectors[count++] = {const_cast<char*>(part.data()), part.size()};
  for (std::size_t first = 0; first < count;) {
    if (vectors[first].iov_len == 0) {
      ++first;
      continue;
    }
    const ssize_t done = ::writev(descriptor_, vectors.data() + first, static_cast<int>(count - first));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      throw EnvironmentError({.what = "cannot write to a log file",
                              .where = path_.string(),
                              .found = std::strerror(errno),
                              .remedy = "free some disk space, then continue with --resume-from-checkpoint latest"});
    }
    auto written = static_cast<std::size_t>(done);  // a disk that is nearly full accepts only a part
    for (; first < count && written >= vectors[first].iov_len; ++first) written -= vectors[first].iov_len;
    if (first == count) break;
    vectors[first].iov_base = static_cast<char*>(vectors[first].iov_base) + written;
    vectors[first].iov_len -= written;
  }
}

int open_nameless(const std::filesystem::path& directory, int flags) {
  const int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  std::string name = (directory / "plimsoll-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC | flags);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

std::filesystem::path temporary_directory() {
  const char* const named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') return named;
  std::error_code error;
  return std::filesystem::is_directory("/var/tmp", error) ? "/var/tmp" : "/tmp";
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const InputFile file(path);
  if (file.size_bytes() > limit_bytes) {
    throw DataError({.what = "a file is larger than anything of its kind",
                     .where = path.string(),
                     .found = format_bytes(file.size_bytes()),
                     .allowed = format_bytes(limit_bytes)});
  }
  std::string text(file.size_bytes(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

FileSum write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  return file.close();
}

void write_text_parts(const std::filesystem::path& path, const std::function<void(const TextSink&)>& make) {
  constexpr std::size_t kGathered = 64 * kKiB;
  OutputFile file(path);
  std::string gathered;
  make([&](std::string_view text) {
    gathered += text;
    if (gathered.size() < kGathered) return;
    file.write(gathered);
    gathered.clear();
  });
  file.write(gathered);
  file.close();
}

bool is_special_file(const std::filesystem::path& path) {
  struct stat info {};
  return own_descriptor(link_target(path)) >= 0 ||
         (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

void replace_directory(const std::filesystem::path& aside, const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(parent);
    std::filesystem::remove_all(aside, error);  // removes the old directory
    if (error) throw_write_error(aside, "remove a directory", error.value());
    return;
  }
  std::filesystem::remove_all(path, error);
  if (!error) std::filesystem::rename(aside, path, error);
  if (error) throw_write_error(path, "replace a directory", error.value());
  sync_directory(parent);
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_write_error(directory, "open a directory", errno);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems cannot sync a directory; the rename is then as safe as it can be.
  if (result != 0 && error != EINVAL && error != ENOTSUP) throw_write_error(directory, "sync a directory", error);
}

}  // namespace plimsoll
