// What `--shard I/N` writes in place of an output NAME, and `merge-parts` joins: NAME.part-I-of-N with the lines of the
// shard's pages, and beside it NAME.part-I-of-N.json, its manifest: what was run with what, and whether it is finished.
//
//   PartFile part("found.jsonl", parse_shard("2/3"), part_identity("predict", *command, "jsonl", model, input));
//   if (!part.finished()) {
//     part.begin();
//     OutputFile file(part.path());
//     part.finish(range, file.close(), {{"pages", 7}});
//   }
//
// Invariant: a part that its manifest calls finished is whole, however processes end: the manifest says so after the
// part has its name. Parts of one output that differ in command, options, model or input are refused.
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
// The shard that was asked for; nullopt: none. Throws UsageError for what is none, for an output that has no place for
// parts beside it, and for `processes` of a launcher, which share pages by themselves.
std::optional<ShardNumber> shard_of(const std::string& shard, const std::string& output, int processes);

// What all parts of an output have in common. Options that change no byte of it are left out. `form`: of the output, as
// FieldOutput has it; `model`: of model_record, or empty; `input`: a fingerprint of what is read.
nlohmann::json part_identity(const std::string& name, const Command& command, const std::string& form,
                             const nlohmann::json& model, const std::string& input);
// The fingerprint of files of pages: their names and bytes; of a folder's pages, their names and sizes.
std::string pages_fingerprint(const PagePaths& paths);

class PartFile {
 public:
  // Throws UsageError if there are parts of that output, in as many shards, with another identity.
  PartFile(std::filesystem::path output, ShardNumber shard, nlohmann::json identity);

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& manifest() const { return manifest_; }
  // What `finish` was told of the part; nullopt if it has not been written, or not to its end.
  const std::optional<nlohmann::json>& finished() const { return finished_; }
  // From now on the part is one that is being written.
  void begin() const;
  // `sum`: of the part's bytes; `result`: "pages", and what else is told of it.
  void finish(PageRange range, const FileSum& sum, const nlohmann::json& result) const;

 private:
  void write(bool is_finished, const nlohmann::json& more) const;

  std::filesystem::path path_, manifest_;
  ShardNumber shard_;
  nlohmann::json identity_;
  std::optional<nlohmann::json> finished_;
};

// Says that the shard's part is finished, if it is, and returns whether; the exit code is that of the run that wrote
// it.
bool tell_finished(const Invocation& invocation, const PartFile& part, ShardNumber shard);

// A finished part, as merge-parts finds it.
struct FoundPart {
  std::filesystem::path path{}, manifest{};
  nlohmann::json identity{}, result{};
  FileSum sum{};
};

// All parts of an output in their order. Throws DataError that names a part which is missing, not finished, damaged or
// of another identity than the first, and the manifests of two divisions into shards.
std::vector<FoundPart> find_parts(const std::filesystem::path& output);

}  // namespace plimsoll
