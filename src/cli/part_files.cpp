#include "cli/part_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "cli/run_record.h"
#include "formats/checksums.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kManifestVersion = 1;

fs::path part_path(const fs::path& output, ShardNumber shard) {
  return output.string() + fmt::format(".part-{}-of-{}", shard.index + 1, shard.count);
}
fs::path manifest_path(const fs::path& part) { return part.string() + ".json"; }

// Returns the manifest as it was written, or an empty object for anything else.
json read_manifest(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return json::object();
  const json manifest = parse_json(read_text_file(path, 1 << 28), path.string());
  const bool is_one = manifest.is_object() && manifest.value("version", json()) == kManifestVersion &&
                      manifest.value("identity", json()).is_object() && manifest.value("finished", json()).is_boolean();
  return is_one ? manifest : json::object();
}

bool is_finished(const json& manifest) { return manifest.value("finished", false); }

FileSum sum_of(const json& manifest) {
  FileSum sum;
  const std::string hash = manifest.value("xxh3", std::string());
  sum.bytes = manifest.value("bytes", std::uint64_t{0});
  sum.hash = std::strtoull(hash.c_str(), nullptr, 16);
  return sum;
}

// Returns what differs, as text; empty if nothing does.
std::string difference(const json& then, const json& now) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  for (const char* const key : {"command", "plimsoll"}) {
    if (then.value(key, json()) != now.value(key, json())) {
      add(fmt::format("{}: {} then, {} now", key, then.value(key, json()).dump(), now.value(key, json()).dump()));
    }
  }
  if (const std::string options = changed_options(then, now); !options.empty()) add(options);
  if (then.value("model", json()) != now.value("model", json())) add("another model");
  if (then.value("input", json()) != now.value("input", json())) add("another input");
  if (text.empty() && then != now) add("other options");
  return text;
}

// Returns the manifests of an output's parts, by the number of shards and the shard.
std::map<std::size_t, std::map<std::size_t, fs::path>> manifests_of(const fs::path& output) {
  const fs::path folder = output.parent_path().empty() ? fs::path(".") : output.parent_path();
  const std::string before = output.filename().string() + ".part-";
  std::map<std::size_t, std::map<std::size_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::size_t index = 0, count = 0;
    if (!name.starts_with(before) ||
        std::sscanf(name.c_str() + before.size(), "%zu-of-%zu.json", &index, &count) != 2 || index < 1 ||
        index > count) {
      continue;
    }
    const fs::path part = part_path(output, {.index = index - 1, .count = count});
    if (name == manifest_path(part).filename().string()) found[count][index - 1] = manifest_path(part);
  }
  return found;
}

[[noreturn]] void refuse_part(std::string what, const fs::path& path, std::string found, std::string remedy) {
  throw DataError({.what = std::move(what),
                   .where = path.string(),
                   .found = std::move(found),
                   .allowed = "a finished part from every shard, all of the same command, options, model and input",
                   .remedy = std::move(remedy)});
}

}  // namespace

void add_shard_option(Command* command, std::string& shard) {
  command
      ->add_option("--shard", shard,
                   "Process part I of N of the pages, for processes started without a launcher, and write "
                   "OUTPUT.part-I-of-N with a manifest; plimsoll merge-parts joins the parts")
      ->type_name("I/N");
}

std::optional<ShardNumber> shard_of(const std::string& shard, const std::string& output, int processes) {
  if (shard.empty()) return std::nullopt;
  const ShardNumber number = parse_shard(shard);
  if (output.empty() || is_special_file(output)) {
    throw UsageError({.what = "a shard writes its part beside the output, which must be a file",
                      .where = "--shard",
                      .found = output.empty() ? "no --output" : output,
                      .allowed = "--output FILE, the same for all shards",
                      .remedy = "pass --output; plimsoll merge-parts writes that file"});
  }
  if (processes > 1) {
    throw UsageError({.what = "processes of a launcher share the pages of one output, not of a shard",
                      .where = "--shard",
                      .found = counted(processes, "process", "processes"),
                      .allowed = "--shard in single processes, or a launcher without --shard",
                      .remedy = "omit --shard, or pass --launcher none"});
  }
  return number;
}

json part_identity(const std::string& name, const Command& command, const std::string& form, const json& model,
                   const std::string& input) {
  static const std::set<std::string> kSameBytes = {"shard",
                                                   "output",
                                                   "json",
                                                   "config",
                                                   "threads",
                                                   "budget",
                                                   "host_budget",
                                                   "timeout",
                                                   "launcher",
                                                   "dataloader_num_workers",
                                                   "cache",
                                                   "enforce_eager",
                                                   "per_device_eval_batch_size"};
  json options = json::object();
  const json all = command.values();
  for (const auto& [option, value] : all.items()) {
    if (!kSameBytes.contains(option)) options[option] = value;
  }
  // A GPU's number is specific to the machine.
  if (options.contains("device") && options["device"].is_string()) {
    const std::string device = options["device"];
    options["device"] = device.substr(0, device.find(':'));
  }
  return {{"plimsoll", PLIMSOLL_VERSION},  {"command", name}, {"form", form},
          {"options", std::move(options)}, {"model", model},  {"input", input}};
}

std::string pages_fingerprint(const PagePaths& paths) {
  Hasher hasher;
  for (const fs::path& path : paths) {
    hasher.add_text(path.string());
    if (!fs::is_directory(path)) {
      hasher.add_text(hash_digits(sum_of_file(path).hash));
      continue;
    }
    std::map<std::string, std::uint64_t> sizes;
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(path)) {
      if (file.is_regular_file()) sizes[file.path().string()] = file.file_size();
    }
    for (const auto& [name, bytes] : sizes) hasher.add_text(fmt::format("{} {}", name, bytes));
  }
  return hash_digits(hasher.digest());
}

PartFile::PartFile(fs::path output, ShardNumber shard, json identity)
    : path_(part_path(output, shard)), manifest_(manifest_path(path_)), shard_(shard), identity_(std::move(identity)) {
  const auto parts = manifests_of(output);
  const auto of_this = parts.find(shard.count);
  if (of_this == parts.end()) return;
  for (const auto& [index, path] : of_this->second) {
    const json manifest = read_manifest(path);
    // An interrupted part is started again, whatever its identity.
    if (manifest.empty() || (index == shard.index && !is_finished(manifest))) continue;
    if (const std::string changes = difference(manifest["identity"], identity_); !changes.empty()) {
      throw UsageError({.what = "there are parts of the output that were made in another way",
                        .where = path.string(),
                        .found = changes,
                        .allowed = "the same command, options, model and input for all parts of an output",
                        .remedy = fmt::format("pass another --output, or remove {}.part-*-of-{} and their manifests",
                                              output.string(), shard.count)});
    }
    std::error_code error;
    if (index == shard.index && fs::file_size(path_, error) == sum_of(manifest).bytes && !error) {
      finished_ = manifest.value("result", json::object());
    }
  }
}

void PartFile::begin() const { write(false, json::object()); }

void PartFile::finish(PageRange range, const FileSum& sum, const json& result) const {
  write(true, {{"first_page", range.begin},
               {"end_page", range.end},
               {"bytes", sum.bytes},
               {"xxh3", hash_digits(sum.hash)},
               {"result", result}});
}

void PartFile::write(bool is_finished, const json& more) const {
  json manifest = {{"version", kManifestVersion},
                   {"finished", is_finished},
                   {"shard", shard_.index + 1},
                   {"shards", shard_.count},
                   {"identity", identity_}};
  manifest.update(more);
  write_text_file(manifest_, json_text(manifest, 2) + "\n");
}

bool tell_finished(const Invocation& invocation, const PartFile& part, ShardNumber shard) {
  if (!part.finished()) return false;
  const json& result = *part.finished();
  const auto pages = result.value("pages", std::uint64_t{0});
  const std::size_t unread = result.value("unreadable", json::array()).size();
  if (unread > 0) {
    invocation.exit_code = ExitCode::kData;
    log_warning(fmt::format("{} could not be read; to do the shard again, remove {} and {}",
                            counted(unread, "page or file", "pages or files"), part.path().string(),
                            manifest_path(part.path()).string()));
  }
  if (invocation.json) {
    print_json({{"pages", pages}, {"output", part.path().string()}, {"shard", shard.text()}, {"was_finished", true}});
  } else {
    print_line(fmt::format("nothing is left to do: shard {} is finished, {} in {}", shard.text(),
                           counted(pages, "page"), part.path().string()));
  }
  return true;
}

std::vector<FoundPart> find_parts(const fs::path& output) {
  const auto divisions = manifests_of(output);
  if (divisions.empty()) {
    refuse_part("the output has no parts", output, "no file " + output.string() + ".part-1-of-N.json",
                "run the shards first: plimsoll predict … --output " + output.string() + " --shard 1/N");
  }
  if (divisions.size() > 1) {
    const std::size_t first = divisions.begin()->first, second = std::next(divisions.begin())->first;
    refuse_part("the output has parts of two divisions", output,
                fmt::format("parts of {} and of {}", counted(first, "shard"), second),
                "remove those that are not wanted, with their manifests");
  }
  const auto& [count, manifests] = *divisions.begin();
  std::vector<FoundPart> parts;
  std::size_t next_page = 0;
  for (std::size_t index = 0; index < count; ++index) {
    const ShardNumber shard{.index = index, .count = count};
    const fs::path path = part_path(output, shard), place = manifest_path(path);
    const std::string again = fmt::format("run the command with --shard {}, then merge-parts again", shard.text());
    if (!manifests.contains(index)) refuse_part("a part is missing", path, "no manifest " + place.string(), again);
    const json manifest = read_manifest(place);
    if (!is_finished(manifest)) {
      refuse_part("a part is not finished", path,
                  manifest.empty() ? "a damaged manifest" : "a shard that is running or was interrupted", again);
    }
    FoundPart part{.path = path,
                   .manifest = place,
                   .identity = manifest["identity"],
                   .result = manifest.value("result", json::object()),
                   .sum = sum_of(manifest)};
    if (!parts.empty()) {
      if (const std::string changes = difference(parts.front().identity, part.identity); !changes.empty()) {
        refuse_part("a part was made in another way than the first", path, changes, again);
      }
    }
    if (manifest.value("first_page", next_page + 1) != next_page) {
      refuse_part("a part does not begin where the one before it ends", path,
                  fmt::format("page {} instead of {}", manifest.value("first_page", std::uint64_t{0}), next_page),
                  again);
    }
    next_page = manifest.value("end_page", next_page);
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(path, error);
    if (error || bytes != part.sum.bytes) {
      refuse_part(error ? "a part is missing" : "a part is damaged", path,
                  error ? error.message() : fmt::format("a length of {}", counted(bytes, "byte")), again);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace plimsoll
