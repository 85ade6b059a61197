#include "base/installed.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// The subfolders of a folder, by name; none if it cannot be read.
std::vector<fs::path> folders_of(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    if (each->is_directory(error)) folders.push_back(each->path());
  }
  std::ranges::sort(folders);
  return folders;
}

// Adds the package folders of the Pythons that are installed under `prefix`.
void add_packages(const fs::path& prefix, std::vector<fs::path>& to) {
  for (const fs::path& python : folders_of(prefix / "lib")) {
    if (!python.filename().string().starts_with("python")) continue;
    to.push_back(python / "site-packages");
    to.push_back(python / "dist-packages");
  }
}

std::vector<fs::path> package_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (folder.filename() == "site-packages" || folder.filename() == "dist-packages") folders.push_back(folder);
  }
  if (program.parent_path().filename() == "bin") add_packages(program.parent_path().parent_path(), folders);
  for (const char* const variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* const prefix = std::getenv(variable)) add_packages(prefix, folders);
  }
  if (const char* const home = std::getenv("HOME")) add_packages(fs::path(home) / ".local", folders);
  add_packages("/usr/local", folders);
  add_packages("/usr", folders);
  return folders;
}

}  // namespace

std::filesystem::path installed(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || program.parent_path().filename() != "bin") return {};
  const std::filesystem::path file = program.parent_path().parent_path() / path;
  return std::filesystem::exists(file, error) ? file : std::filesystem::path();
}

std::vector<std::filesystem::path> in_nvidia_packages(const std::string& file) {
  std::vector<fs::path> found;
  for (const fs::path& packages : package_folders()) {
    for (const fs::path& package : folders_of(packages / "nvidia")) {
      std::error_code error;
      const fs::path each = package / "lib" / file;
      if (fs::exists(each, error) && std::ranges::find(found, each) == found.end()) found.push_back(each);
    }
  }
  return found;
}

}  // namespace plimsoll
