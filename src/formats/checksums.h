// checksums.json: the length and fingerprint of each file that Plimsoll wrote into a directory, so that damage is
// noticed before a file's numbers are used. safetensors has no checksum of its own.
//
//   {"algorithm": "xxh3-64", "files": {"config.json": {"bytes": 812, "xxh3": "93c1b2a40d55e0f7"}, …}} (JSON)
//
//   FileSums sums{{"config.json", write_text_file(directory / "config.json", text)}};
//   write_checksums(directory, sums);
//   verify_file(directory / "config.json");   // throws DataError if a bit of it has changed
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"

namespace plimsoll {

inline constexpr const char* kChecksumsFile = "checksums.json";

using FileSums = std::map<std::string, FileSum>;  // by path within its directory

void write_checksums(const std::filesystem::path& directory, const FileSums& sums);

// Returns an empty map if there is no checksums.json. Throws DataError if it cannot be read.
FileSums read_checksums(const std::filesystem::path& directory);

// Computes the sum of a file, read through 64 KiB on the stack.
FileSum sum_of_file(const std::filesystem::path& path);

// How to treat a length that differs from the recorded one. Damage by disk or memory keeps a file's length; a different
// length usually means that another program rewrote the file, as `transformers` does when it saves a model over this
// one.
enum class OtherLength { kRefuse, kWarn };

// Compares the file with checksums.json beside it; does nothing if the file is not listed. Throws DataError.
void verify_file(const std::filesystem::path& path, OtherLength other_length = OtherLength::kWarn);

// Verifies each file that checksums.json lists, but weights only with `weights`: they are large, and are verified when
// they are loaded.
void verify_model_files(const std::filesystem::path& directory, bool weights);

// Verifies a whole checkpoint: each listed file must exist and be unchanged. Returns false if there is no
// checksums.json (an older version wrote the checkpoint).
bool verify_checkpoint(const std::filesystem::path& directory);

}  // namespace plimsoll
