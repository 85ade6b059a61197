#include "formats/checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
constexpr const char* kAlgorithm = "xxh3-64";
constexpr std::uint64_t kLongestBytes = 1 << 20;

[[noreturn]] void refuse_list(const fs::path& path, std::string found) {
  throw DataError({.what = "the list of checksums cannot be read",
                   .where = path.string(),
                   .found = std::move(found),
                   .allowed = "what Plimsoll wrote when it saved the directory",
                   .remedy = "the file is damaged: copy the directory again, or resume from another checkpoint"});
}

FileSum sum_in(const fs::path& path, const std::string& name, const nlohmann::json& entry) {
  const bool good = entry.is_object() && entry.contains("bytes") && entry["bytes"].is_number_unsigned() &&
                    entry.contains("xxh3") && entry["xxh3"].is_string();
  if (!good) refuse_list(path, fmt::format("\"{}\": {}", name, entry.dump().substr(0, 60)));
  const auto text = entry["xxh3"].get<std::string>();
  FileSum sum{.bytes = entry["bytes"].get<std::uint64_t>()};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum.hash, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    refuse_list(path, fmt::format("\"{}\": {}", name, text));
  }
  return sum;
}

void compare(const fs::path& path, const FileSum& written, OtherLength other_length) {
  const InputFile file(path);
  if (file.size_bytes() != written.bytes && other_length == OtherLength::kWarn) {
    log_warning(
        fmt::format("{} is not the file that was saved there ({} now, {} then), so its checksum in {} says "
                    "nothing",
                    path.string(), counted(file.size_bytes(), "byte"), written.bytes, kChecksumsFile));
    return;
  }
  const FileSum found = sum_of_file(path);
  if (found == written) return;
  throw DataError(
      {.what = "a file is damaged: its bytes are not those that were saved",
       .where = path.string(),
       .found = fmt::format("{}, checksum {}", counted(found.bytes, "byte"), hash_digits(found.hash)),
       .allowed = fmt::format("{}, checksum {}, as {} has it", counted(written.bytes, "byte"),
                              hash_digits(written.hash), kChecksumsFile),
       .remedy = fmt::format("copy it again, or use another checkpoint; if it was changed on purpose, remove "
                             "its entry from {}",
                             (path.parent_path() / kChecksumsFile).string())});
}

// Names may lead into a folder of the directory, never out of it.
bool stays_within(const fs::path& name) {
  return name.is_relative() && name.has_filename() && name == name.lexically_normal() && *name.begin() != "..";
}

bool holds_weights(const std::string& name) { return name.ends_with(".safetensors") || name.ends_with(".bin"); }

}  // namespace

void write_checksums(const fs::path& directory, const FileSums& sums) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, sum] : sums) files[name] = {{"bytes", sum.bytes}, {"xxh3", hash_digits(sum.hash)}};
  write_text_file(directory / kChecksumsFile,
                  json_text(nlohmann::json{{"algorithm", kAlgorithm}, {"files", files}}, 2) + "\n");
}

FileSums read_checksums(const fs::path& directory) {
  const fs::path path = directory / kChecksumsFile;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const nlohmann::json list = parse_json(read_text_file(path, kLongestBytes), path.string());
  const bool good = list.is_object() && list.contains("algorithm") && list["algorithm"] == kAlgorithm &&
                    list.contains("files") && list["files"].is_object() && !list["files"].empty();
  if (!good) refuse_list(path, "no list of files and their xxh3-64 sums");
  FileSums sums;
  for (const auto& [name, entry] : list["files"].items()) {
    if (!stays_within(name)) refuse_list(path, fmt::format("'{}'", name));
    sums.emplace(name, sum_in(path, name, entry));
  }
  return sums;
}

FileSum sum_of_file(const fs::path& path) {
  const InputFile file(path);
  Hasher hasher;
  std::array<std::byte, 64 * kKiB> piece{};
  for (std::uint64_t done = 0; done < file.size_bytes();) {
    const auto bytes = std::span(piece).first(std::min<std::uint64_t>(piece.size(), file.size_bytes() - done));
    file.read_at(done, bytes);
    hasher.add(bytes);
    done += bytes.size();
  }
  return {file.size_bytes(), hasher.digest()};
}

void verify_file(const fs::path& path, OtherLength other_length) {
  const FileSums sums = read_checksums(path.parent_path());
  const auto written = sums.find(path.filename().string());
  if (written != sums.end()) compare(path, written->second, other_length);
}

void verify_model_files(const fs::path& directory, bool weights) {
  std::error_code error;
  for (const auto& [name, sum] : read_checksums(directory)) {
    if (holds_weights(name) && !weights) continue;
    // Files may be removed from a model's directory; a file that is needed and missing is reported when it is opened.
    if (fs::exists(directory / name, error)) compare(directory / name, sum, OtherLength::kWarn);
  }
}

bool verify_checkpoint(const fs::path& directory) {
  const FileSums sums = read_checksums(directory);
  for (const auto& [name, sum] : sums) compare(directory / name, sum, OtherLength::kRefuse);
  return !sums.empty();
}

}  // namespace plimsoll
