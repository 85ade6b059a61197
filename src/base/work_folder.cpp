#include "base/work_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_error(std::string what, const fs::path& path, const std::error_code& error) {
  throw EnvironmentError({.what = std::move(what),
                          .where = path.string(),
                          .found = error.message(),
                          .remedy = "check the path, its permissions and the disk"});
}

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC", ::getpid(), host.data(),
                     fmt::gmtime(std::time(nullptr)));
}

using FileIdentity = std::pair<dev_t, ino_t>;

std::optional<FileIdentity> identity_of(const fs::path& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return std::nullopt;
  return FileIdentity{file.st_dev, file.st_ino};
}

// The directories that this process has locked, as they were then.
std::map<fs::path, FileIdentity>& held_directories() {
  static std::map<fs::path, FileIdentity> directories;
  return directories;
}
std::mutex& held_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool is_same_file(int descriptor, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string text_of(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  std::string line(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line.empty() ? "a process that has not written its name yet" : line;
}

// True for the file that this process prints to: a shell creates it before the process begins.
bool is_own_output(const fs::path& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return false;
  return std::ranges::any_of(std::array{STDOUT_FILENO, STDERR_FILENO}, [&](int descriptor) {
    struct stat own {};
    return ::fstat(descriptor, &own) == 0 && own.st_ino == file.st_ino && own.st_dev == file.st_dev;
  });
}

bool is_nobodys(const fs::path& path) {
  constexpr std::array<std::string_view, 5> kNames = {".gitignore", ".gitkeep", ".DS_Store", "lost+found", ".plimsoll"};
  constexpr std::array<std::string_view, 3> kLogs = {".log", ".out", ".err"};
  std::error_code error;
  const std::string name = path.filename().string(), extension = path.extension().string();
  return std::ranges::find(kNames, name) != kNames.end() || is_own_output(path) ||
         (std::ranges::find(kLogs, extension) != kLogs.end() && fs::is_regular_file(path, error));
}

}  // namespace

bool looks_empty(const fs::path& directory) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error) return error == std::errc::no_such_file_or_directory;
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (!is_nobodys(entry->path())) return false;
  }
  return !error;
}

fs::path work_folder(const fs::path& directory) { return directory / ".plimsoll"; }

fs::path make_work_directory(const fs::path& directory, const std::string& name) {
  const fs::path path = work_folder(directory) / name;
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) fs::create_directories(path, error);
  if (error) throw_error("cannot create a directory for what is being written", path, error);
  return path;
}

void remove_work_directory(const fs::path& directory, const std::string& name) {
  const fs::path path = work_folder(directory) / name;
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_error("cannot remove a directory", path, error);
  ::rmdir(work_folder(directory).c_str());  // fails if the folder is not empty
}

void discard_work_directory(const fs::path& directory, const std::string& name) noexcept {
  try {
    remove_work_directory(directory, name);
  } catch (...) {  // the next process that writes there removes the rest
  }
}

DirectoryLock::DirectoryLock(const fs::path& directory, const std::string& option)
    : directory_(directory), path_(work_folder(directory) / "lock") {
  while (!try_to_lock(option)) {
  }
  const std::lock_guard lock(held_mutex());
  if (const auto identity = identity_of(directory)) {
    held_directories()[fs::absolute(directory).lexically_normal()] = *identity;
  }
}

// Returns false if a process that ended meanwhile has removed the file; the caller then tries again.
bool DirectoryLock::try_to_lock(const std::string& option) {
  std::error_code error;
  fs::create_directories(work_folder(directory_), error);
  if (error) throw_error("cannot lock a directory", directory_, error);
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    if (errno == ENOENT) return false;  // the folder was removed in between
    throw_error("cannot lock a directory", path_, std::error_code(errno, std::generic_category()));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      log_warning(fmt::format("{} cannot be locked ({}): let no other process write there", directory_.string(),
                              std::strerror(errno)));
      return true;
    }
    const std::string holder = text_of(descriptor_);
    ::close(std::exchange(descriptor_, -1));
    throw UsageError({.what = "another process is writing to this directory",
                      .where = option,
                      .found = fmt::format("{}, held by {}", directory_.string(), holder),
                      .allowed = "one process at a time",
                      .remedy = "wait for it to end, stop it, or pass another directory"});
  }
  if (!is_same_file(descriptor_, path_)) {
    ::close(std::exchange(descriptor_, -1));
    return false;
  }
  const std::string text = this_process() + "\n";
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    log_warning(fmt::format("{} cannot be written, so that it does not name this process", path_.string()));
  }
  return true;
}

DirectoryLock::~DirectoryLock() {
  {
    const std::lock_guard lock(held_mutex());
    held_directories().erase(fs::absolute(directory_).lexically_normal());
  }
  if (descriptor_ < 0) return;
  // Still held: whoever opened it finds another file under its name, or none. If the directory was removed and made
  // again meanwhile, the file there is another process's.
  if (is_same_file(descriptor_, path_)) {
    ::unlink(path_.c_str());
    ::rmdir(work_folder(directory_).c_str());
  }
  ::close(descriptor_);
}

void refuse_another_directory(const fs::path& directory) {
  const std::lock_guard lock(held_mutex());
  const auto held = held_directories().find(fs::absolute(directory).lexically_normal());
  if (held == held_directories().end()) return;
  std::optional<FileIdentity> now = identity_of(directory);
  if (!now) {
    std::error_code error;
    fs::create_directories(directory, error);
    now = identity_of(directory);
    if (now) held->second = *now;
    return;  // whoever writes there says what is wrong
  }
  if (*now == held->second) return;
  throw EnvironmentError({.what = "the directory was removed while this run went on, and another process made it again",
                          .where = directory.string(),
                          .found = "a directory that this process has not locked, so nothing is saved there",
                          .allowed = "one process at a time",
                          .remedy = "give each run a directory of its own, and remove none that is in use"});
}

}  // namespace plimsoll
