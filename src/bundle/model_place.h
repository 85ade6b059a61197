// Puts a finished model into a directory, perhaps over an older one, atomically, even if the process is killed.
//
// The files are written to DIR/.plimsoll/model.tmp and synced. One rename, to DIR/.plimsoll/model, commits them: from
// then on they are the directory's model, and code that opens it by model_place reads them there. Then each file gets
// its name in DIR (a hard link, so that no space is needed), config.json last, and DIR/.plimsoll/model is removed. If
// the process is killed in between, the next process that writes the directory finishes this. So every command of
// Plimsoll sees either the complete old model or the complete new one. Other programs open DIR's files one by one: they
// see the old model, then, for the moment of a few renames, a directory without config.json, which they refuse, then
// the new model.
//
//   write_model("run", [&](const fs::path& aside) { return save_model(aside, bundle, original, memory); });
//   open_model("run");                        // reads model_place("run")
#pragma once

#include <filesystem>
#include <functional>

#include "formats/checksums.h"

namespace plimsoll {

// `write` fills an empty directory and returns the sums of its files, to which checksums.json is added. Files of the
// earlier model in `directory` that the new one does not have are removed.
void write_model(const std::filesystem::path& directory,
                 const std::function<FileSums(const std::filesystem::path& aside)>& write);

// Returns where the files of the directory's model are: in it, or in its work folder while they are being put in place.
std::filesystem::path model_place(const std::filesystem::path& directory);

// Puts a committed model in place if its process was killed before it could, and removes one that was never committed.
void finish_writing_model(const std::filesystem::path& directory);

}  // namespace plimsoll
