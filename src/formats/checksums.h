// checksums.json: the length and fingerprint of each file that Plimsoll wrote into a directory, so that damage is seen
// before a file's numbers are used. safetensors has no checksum of its own.
//
//   {"algorithm": "xxh3-64", "files": {"config.json": {"bytes": 812, "xxh3": "93c1b2a40d55e0f7"}, …}}
//
//   FileSums sums{{"config.json", write_text_file(directory / "config.json", text)}};
//   write_checksums(directory, sums);
//   verify_file(directory / "config.json");   // throws DataError if a bit of it has changed since
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"

namespace plimsoll {

inline constexpr const char* kChecksumsFile = "checksums.json";

using FileSums = std::map<std::string, FileSum>;  // by the file's name in its directory

void write_checksums(const std::filesystem::path& directory, const FileSums& sums);

// Empty where there is no checksums.json. Throws DataError if it cannot be read.
FileSums read_checksums(const std::filesystem::path& directory);

// The sum of a file, read through 64 KiB on the stack.
FileSum sum_of_file(const std::filesystem::path& path);

// What another length than the recorded one means. Damage by a disk or by memory keeps a file's length; another length
// is mostly a file that somebody wrote anew, as `transformers` does when it saves a model over this one.
enum class OtherLength { kRefuse, kWarn };

// Compares the file with what checksums.json beside it says; does nothing if that does not list it. Throws DataError.
void verify_file(const std::filesystem::path& path, OtherLength other_length = OtherLength::kWarn);

// Each file that checksums.json lists, weights left out unless `weights`: they are large, and verified when they are
// loaded.
void verify_model_files(const std::filesystem::path& directory, bool weights);

// All of a checkpoint: each listed file must be there, and as it was. False where there is no checksums.json (an older
// version wrote the checkpoint).
bool verify_checkpoint(const std::filesystem::path& directory);

}  // namespace plimsoll
