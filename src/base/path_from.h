// How one file refers to another by path.
//
//   const std::filesystem::path image = path_from("out/found.jsonl", "scans/7.png");  // "../scans/7.png"
#pragma once

#include <filesystem>

namespace plimsoll {

// Returns `path` as a reader of the file `output` finds it: a relative path becomes one from the folder of `output`; an
// absolute one stays, and so does any where `output` is empty or cannot be read again.
std::filesystem::path path_from(const std::filesystem::path& output, const std::filesystem::path& path);

}  // namespace plimsoll
