// DIR/.plimsoll: where whoever writes the directory DIR keeps its lock and what is not whole yet. All that lies in it
// is Plimsoll's and may be removed once its process has ended, so nothing of a user's own ever is. It is gone when the
// last of its users has ended well.
//
//   const DirectoryLock lock("run", "--output-dir");            // UsageError if another process writes there
//   const fs::path aside = make_work_directory("run", "checkpoint-5");   // run/.plimsoll/checkpoint-5, empty
//   …                                                          // written, synced
//   replace_directory(aside, "run/checkpoint-5");
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

std::filesystem::path work_folder(const std::filesystem::path& directory);

// Whether the directory is not there, or holds nothing of anybody's: logs (.log, .out, .err), the files that this
// process prints to and .gitignore and its like do not count, nor does a work folder. False for what is no directory.
bool looks_empty(const std::filesystem::path& directory);

// Makes work_folder(directory)/name, empty whatever was there. Throws EnvironmentError.
std::filesystem::path make_work_directory(const std::filesystem::path& directory, const std::string& name);
// Removes work_folder(directory)/name and, if nothing is left in it, the folder.
void remove_work_directory(const std::filesystem::path& directory, const std::string& name);
// The same as far as that is possible, for who has an error to report already.
void discard_work_directory(const std::filesystem::path& directory, const std::string& name) noexcept;

// Held by one process at a time, and by none that has ended, however it ended (flock). The file lock in the work folder
// names the process. File systems that cannot lock are warned about, and trusted.
class DirectoryLock {
 public:
  // Makes the work folder in `directory`, which exists. Throws UsageError that names the holder; `option` is where the
  // directory came from.
  DirectoryLock(const std::filesystem::path& directory, const std::string& option);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  bool try_to_lock(const std::string& option);

  std::filesystem::path directory_, path_;
  int descriptor_ = -1;
};

}  // namespace plimsoll
