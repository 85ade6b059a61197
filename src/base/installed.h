// Files that were installed together with the program.
//
//   const std::filesystem::path fonts = installed("share/plimsoll/fonts");
//   if (!fonts.empty()) use(fonts);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

// Returns where `path` lies if the program is PREFIX/bin/plimsoll and PREFIX/`path` exists; else an empty path. A
// program in its build folder has nothing beside it.
std::filesystem::path installed(const std::filesystem::path& path);

// Returns the files of that name in Python's packages of NVIDIA's libraries (site-packages/nvidia/PACKAGE/lib), which
// the loader does not search: of the environment that holds the program, then of VIRTUAL_ENV, CONDA_PREFIX, the user
// and the system. Each file once.
std::vector<std::filesystem::path> in_nvidia_packages(const std::string& file);

}  // namespace plimsoll
