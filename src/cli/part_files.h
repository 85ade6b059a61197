// What `--shard I/N` writes instead of an output NAME, and `merge-parts` joins: NAME.part-I-of-N with the lines of the
// shard's pages, and beside it NAME.part-I-of-N.json, its manifest: the command, its options and inputs, and whether it
// is finished.
//
//   PartFile part("found.jsonl", parse_shard("2/3"), part_identity("predict", *command, "jsonl", model, input));
//   if (!part.finished()) {
//     part.begin();
//     OutputFile file(part.path());
//     part.finish(range, file.close(), {{"pages", 7}});
//   }
//
// Invariant: a part that its manifest calls finished is complete, however processes end: the manifest says so only
// after the part has its name. Parts of one output that differ in command, options, model or input are refused.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "data/page_range.h"

namespace plimsoll {

void add_shard_option(Command* command, std::string& shard);
// Returns the requested shard; nullopt if there is none. Throws UsageError for a text that is not a shard, for an
// output that cannot have parts beside it, and for several `processes` of a launcher, which share pages themselves.
std::optional<ShardNumber> shard_of(const std::string& shard, const std::string& output, int processes);

// Returns what all parts of an output have in common. Options that change no byte of it are left out. `form` is the
// output's, as in FieldOutput; `model` is from model_record, or empty; `input` is a fingerprint of what is read.
nlohmann::json part_identity(const std::string& name, const Command& command, const std::string& form,
                             const nlohmann::json& model, const std::string& input);
// Returns the fingerprint of files of pages: their names and bytes; of a folder's pages, their names and sizes.
std::string pages_fingerprint(const PagePaths& paths);

class PartFile {
 public:
  // Throws UsageError if there are parts of that output, with the same number of shards, that have another identity.
  PartFile(std::filesystem::path output, ShardNumber shard, nlohmann::json identity);

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& manifest() const { return manifest_; }
  // Returns what `finish` recorded for the part; nullopt if it has not been written, or not completely.
  const std::optional<nlohmann::json>& finished() const { return finished_; }
  // Marks the part as being written.
  void begin() const;
  // `sum` is that of the part's bytes; `result` has "pages", and other facts to report.
  void finish(PageRange range, const FileSum& sum, const nlohmann::json& result) const;

 private:
  void write(bool is_finished, const nlohmann::json& more) const;

  std::filesystem::path path_, manifest_;
  ShardNumber shard_;
  nlohmann::json identity_;
  std::optional<nlohmann::json> finished_;
};

// Returns whether the shard's part is finished, and reports it if so; the exit code is then that of the run that wrote
// it.
bool tell_finished(const Invocation& invocation, const PartFile& part, ShardNumber shard);

// A finished part, as merge-parts finds it.
struct FoundPart {
  std::filesystem::path path{}, manifest{};
  nlohmann::json identity{}, result{};
  FileSum sum{};
};

// Returns all parts of an output in their order. Throws DataError naming a part that is missing, not finished, damaged
// or of another identity than the first, or the manifests of different divisions into shards.
std::vector<FoundPart> find_parts(const std::filesystem::path& output);

}  // namespace plimsoll
