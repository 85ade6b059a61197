#include "bundle/model_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/work_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
constexpr const char* kUncommitted = "model.tmp";
constexpr const char* kCommitted = "model";
// Without these no program takes the directory for a model. They are removed first and put in place last.
constexpr std::array<const char*, 2> kConfigs = {"config.json", "adapter_config.json"};

[[noreturn]] void throw_error(const fs::path& path, const std::error_code& error) {
  throw EnvironmentError({.what = "cannot install a model's file",
                          .where = path.string(),
                          .found = error.message(),
                          .remedy = "check the path, its permissions and the disk"});
}

bool is_config(const std::string& name) { return name == kConfigs[0] || name == kConfigs[1]; }

// Gives the file `from` the name `to` as well, or copies it if the file system has no hard links. The file that had the
// name loses it in the same step.
void put_in_place(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path aside = aside_path(to);
  fs::create_directories(to.parent_path(), error);  // of a file in a folder of the directory
  fs::remove(aside, error);
  if (fs::equivalent(from, to, error)) return;  // it already was when the process was killed
  error.clear();
  fs::create_hard_link(from, aside, error);
  if (error) {
    fs::copy_file(from, aside, fs::copy_options::overwrite_existing, error);
    const int file = error ? -1 : ::open(aside.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = file >= 0 && ::fsync(file) == 0;
    if (!error && !synced) error = std::error_code(errno, std::generic_category());
    if (file >= 0) ::close(file);
  }
  if (!error) fs::rename(aside, to, error);
  if (error) throw_error(to, error);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw_error(path, error);
}

// The directory's list of files may be damaged, which does not matter: it only says what to remove.
FileSums older_files(const fs::path& directory) {
  try {
    return read_checksums(directory);
  } catch (const DataError&) {
    return {};
  }
}

void place_files(const fs::path& directory, const fs::path& committed) {
  const FileSums files = read_checksums(committed), older = older_files(directory);
  for (const char* name : kConfigs) remove_file(directory / name);
  sync_directory(directory);
  for (const auto& [name, sum] : older) {
    if (files.contains(name)) continue;
    remove_file(directory / name);
    if (fs::path(name).has_parent_path()) ::rmdir((directory / name).parent_path().c_str());  // fails if it has others
  }
  for (const auto& [name, sum] : files) {
    if (!is_config(name)) put_in_place(committed / name, directory / name);
  }
  put_in_place(committed / kChecksumsFile, directory / kChecksumsFile);
  sync_directory(directory);
  for (const char* name : kConfigs) {
    if (files.contains(name)) put_in_place(committed / name, directory / name);
  }
  sync_directory(directory);
  // The config's name is removed first: a directory that has it is complete.
  std::error_code error;
  fs::rename(committed, committed.parent_path() / kUncommitted, error);
  if (error) throw_error(committed, error);
  remove_work_directory(directory, kUncommitted);
}

}  // namespace

void write_model(const fs::path& directory, const std::function<FileSums(const fs::path& aside)>& write) {
  finish_writing_model(directory);
  const fs::path aside = make_work_directory(directory, kUncommitted);
  const fs::path committed = work_folder(directory) / kCommitted;
  try {
    write_checksums(aside, write(aside));
    sync_directory(aside);
    std::error_code error;
    fs::rename(aside, committed, error);
    if (error) throw_error(committed, error);
    sync_directory(work_folder(directory));
  } catch (...) {
    discard_work_directory(directory, kUncommitted);  // so that half a model does not keep a full disk full
    throw;
  }
  place_files(directory, committed);
}

fs::path model_place(const fs::path& directory) {
  const fs::path committed = work_folder(directory) / kCommitted;
  std::error_code error;
  return fs::is_directory(committed, error) ? committed : directory;
}

void finish_writing_model(const fs::path& directory) {
  std::error_code error;
  const fs::path committed = work_folder(directory) / kCommitted;
  if (fs::is_directory(committed, error)) place_files(directory, committed);
  if (fs::is_directory(work_folder(directory) / kUncommitted, error)) remove_work_directory(directory, kUncommitted);
}

}  // namespace plimsoll
