// How a finished model comes to stand in a directory, perhaps over an older one: as one, whenever its process is
// killed.
//
// The files are written to DIR/.plimsoll/model.tmp and synced. One rename, to DIR/.plimsoll/model, commits them: from
// then on they are the directory's model, and whoever opens it by model_place reads them there. Then each gets its name
// in DIR (a second name of the same bytes, so that no space is needed), config.json last, and DIR/.plimsoll/model goes.
// Killed in between, the next process that writes the directory finishes that. So every command of Plimsoll's sees the
// old model or the new one, whole. Other programs open DIR's files one by one: they meet the old model, for the moment
// of a few renames a directory without config.json, which they refuse, or the new model.
//
//   write_model("run", [&](const fs::path& aside) { return save_model(aside, bundle, original, memory); });
//   open_model("run");                        // reads model_place("run")
#pragma once

#include <filesystem>
#include <functional>

#include "formats/checksums.h"

namespace plimsoll {

// `write` fills an empty directory and returns the sums of its files, to which checksums.json is added. Files of the
// model that stood in `directory` before and are not the new one's are removed.
void write_model(const std::filesystem::path& directory,
                 const std::function<FileSums(const std::filesystem::path& aside)>& write);

// Where the files of the directory's model are: in it, or in its work folder while they are being put in place.
std::filesystem::path model_place(const std::filesystem::path& directory);

// Puts a committed model in place whose process was killed before it had, and removes one that was never committed.
void finish_writing_model(const std::filesystem::path& directory);

}  // namespace plimsoll
