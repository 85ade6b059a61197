// DIR/.plimsoll: the place where a process that writes the directory DIR keeps its lock and incomplete files.
// Everything in it belongs to Plimsoll and may be removed once its process has ended, so a user's own files are never
// removed. The last process to end normally deletes it.
//
//   const DirectoryLock lock("run", "--output-dir");            // UsageError if another process writes there
//   const fs::path aside = make_work_directory("run", "checkpoint-5");   // run/.plimsoll/checkpoint-5, empty
//   write_text_file(aside / "state.json", text);               // written, synced
//   replace_directory(aside, "run/checkpoint-5");
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

std::filesystem::path work_folder(const std::filesystem::path& directory);

// True if the directory does not exist or holds nothing of the user's: logs (.log, .out, .err), the files that this
// process prints to, .gitignore and the like do not count, nor does a work folder. False if it is not a directory.
bool looks_empty(const std::filesystem::path& directory);

// Makes an empty work_folder(directory)/name, removing old contents. Throws EnvironmentError.
std::filesystem::path make_work_directory(const std::filesystem::path& directory, const std::string& name);
// Removes work_folder(directory)/name and, if it is then empty, the folder.
void remove_work_directory(const std::filesystem::path& directory, const std::string& name);
// Does the same as far as possible, for callers that are already reporting an error.
void discard_work_directory(const std::filesystem::path& directory, const std::string& name) noexcept;

// Held by one process at a time, and released when it ends, however it ends (flock). The file `lock` in the work folder
// names the process. If a file system cannot lock, a warning says so, and the run continues.
class DirectoryLock {
 public:
  // Makes the work folder in `directory`, which must exist. Throws UsageError that names the holder; `option` is the
  // option that gave the directory.
  DirectoryLock(const std::filesystem::path& directory, const std::string& option);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  bool try_to_lock(const std::string& option);

  std::filesystem::path directory_, path_;
  int descriptor_ = -1;
};

// Throws EnvironmentError if the directory that this process has locked was removed and another one is in its place,
// which another process made; makes it again if nobody has. Called before the process writes there. Does nothing for a
// directory that it has not locked.
void refuse_another_directory(const std::filesystem::path& directory);

}  // namespace plimsoll
