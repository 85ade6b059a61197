// Files that were installed together with the program.
//
//   const std::filesystem::path fonts = installed("share/plimsoll/fonts");
//   if (!fonts.empty()) use(fonts);
#pragma once

#include <filesystem>

namespace plimsoll {

// Returns where `path` lies if the program is PREFIX/bin/plimsoll and PREFIX/`path` exists; else an empty path. A
// program in its build folder has nothing beside it.
std::filesystem::path installed(const std::filesystem::path& path);

}  // namespace plimsoll
