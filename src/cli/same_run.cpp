#include "cli/same_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/page_source.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "train/checkpoint.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Options that say where something is, of which only whether they are given is compared: what is read there is compared
// when it has been opened.
const std::set<std::string> kPlaces = {"base_model",    "data",     "distil_from", "draw",  "draw_pdf",
                                       "eval_data",     "fix",      "images",      "input", "labels",
                                       "model",         "offload",  "output",      "pages", "resume_from_checkpoint",
                                       "teacher_cache", "tokenizer"};
// Options of what one machine can do, and of what only rank 0 does.
const std::set<std::string> kOfOneRank = {"budget",
                                          "cache",
                                          "dataloader_num_workers",
                                          "events",
                                          "host_budget",
                                          "launcher",
                                          "logging_dir",
                                          "output_dir",
                                          "report_to",
                                          "rendezvous",
                                          "tessdata_dir",
                                          "threads",
                                          "timeout",
                                          "overwrite_output_dir"};

// Returns the options that must be the same on all ranks.
json shared_options(const Command& command) {
  json options = command.values();
  for (const std::string& name : kOfOneRank) options.erase(name);
  for (const std::string& name : kPlaces) {
    if (!options.contains(name)) continue;
    const json& value = options[name];
    const bool given = !value.is_null() && !value.empty() && value != "";
    options[name] = given ? "given" : "not given";
  }
  // Which of a machine's GPUs is its own matter.
  if (const auto device = options.find("device"); device != options.end() && device->is_string()) {
    const auto text = device->get<std::string>();
    *device = text.substr(0, text.find(':'));
  }
  return options;
}

std::string digits_of(const std::string& text) { return hash_digits(hash_bytes(std::as_bytes(std::span(text)))); }

std::string shown_value(const json& value) {
  if (value.is_null()) return "not given";
  if (value.is_string()) return value.get<std::string>();
  return json_text(value);
}

// Calls `compare` with what each later rank says and with what rank 0 says.
void for_each_other(Communicator& ranks, const json& mine,
                    const std::function<void(int rank, const json& theirs, const json& first)>& compare) {
  const std::vector<std::string> all = all_gather_texts(ranks, json_text(mine));
  const json first = json::parse(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    const json theirs = json::parse(all[rank]);
    if (theirs != first) compare(static_cast<int>(rank), theirs, first);  // 0.0 is 0
  }
}

// An input by what tells it apart: how its parts are called if they differ, in the order in which they are looked at.
struct Input {
  const char* option;
  const char* name;
  std::string path;
  json facts;
};
constexpr std::array<std::pair<const char*, const char*>, 11> kParts = {
    std::pair("size", "other pages"),
    std::pair("files", "other files"),
    std::pair("tokens", "other words or boxes"),
    std::pair("labels", "other labels"),
    std::pair("images", "other pictures"),
    std::pair("config", "another configuration"),
    std::pair("weights", "other weights"),
    std::pair("image processor", "another image processor"),
    std::pair("adapter", "another adapter"),
    std::pair("tokenizer", "another tokenizer"),
    std::pair("checkpoint", "other files of a checkpoint")};

json data_facts(const Dataset& data) {
  const DatasetFingerprint& of = data.fingerprint();
  return {{"size", fmt::format("{} in {}", counted(data.source().size(), "page"), counted(data.size(), "window"))},
          {"tokens", hash_digits(of.tokens)},
          {"labels", hash_digits(of.labels)},
          {"images", hash_digits(of.images)}};
}

// Returns a hash of the names and types of all tensors, and of the first bytes of each, whatever they represent.
std::string beginnings_of(const WeightsFile& weights) {
  constexpr std::int64_t kElements = 256;
  Hasher hasher;
  std::vector<std::byte> first;
  for (const TensorEntry& entry : weights.entries()) {
    hasher.add_text(fmt::format("{} {}", entry.name, to_string(entry.type)));
    first.resize(static_cast<std::size_t>(std::min(kElements, entry.type.shape.elements())) *
                 dtype_bytes(entry.type.dtype));
    weights.read_elements(entry, 0, first);
    hasher.add(first);
  }
  return hash_digits(hasher.digest());
}

json model_facts(const ModelBundle& bundle) {
  return {{"config", digits_of(json_text(config_json(bundle.config)))},
          {"weights", bundle.weights != nullptr ? beginnings_of(*bundle.weights) : std::string()},
          {"image processor", digits_of(bundle.image.to_json())},
          {"adapter", bundle.adapter != nullptr ? bundle.adapter->fingerprint() : std::string()},
          {"tokenizer", bundle.tokenizer != nullptr ? hash_digits(bundle.tokenizer->fingerprint()) : std::string()}};
}

// The sums of a checkpoint's files identify it.
json checkpoint_facts(const std::optional<std::filesystem::path>& resume) {
  if (!resume) return {{"size", "none"}};
  std::string sums;
  for (const auto& [name, sum] : read_checksums(*resume)) sums += fmt::format("{} {}\n", name, hash_digits(sum.hash));
  return {{"size", fmt::format("update {}", read_trainer_state(*resume).step)}, {"checkpoint", digits_of(sums)}};
}

[[noreturn]] void refuse_input(int rank, const Input& input, const json& theirs, const json& first) {
  std::vector<std::string> parts;
  std::string found;
  for (const auto& [key, name] : kParts) {
    if (theirs.value(key, json()) == first.value(key, json())) continue;
    if (std::string_view(key) == "size") {
      found = fmt::format("{} on rank {}, {} on rank 0", theirs.at(key).get<std::string>(), rank,
                          first.at(key).get<std::string>());
      break;
    }
    parts.emplace_back(name);
  }
  if (found.empty()) found = fmt::format("{} on rank {} than on rank 0", fmt::join(parts, ", "), rank);
  throw DataError({.what = fmt::format("rank {} has another {} than rank 0", rank, input.name),
                   .where = fmt::format("{} {}", input.option, input.path),
                   .found = found,
                   .allowed = "the same on every rank, which share every update",
                   .remedy = "copy rank 0's files to that machine, or use a directory that all machines share"});
}

void compare_inputs(Communicator& ranks, const std::vector<Input>& all) {
  json mine = json::object();
  for (const Input& input : all) mine[input.option] = input.facts;
  for_each_other(ranks, mine, [&all](int rank, const json& theirs, const json& first) {
    for (const Input& input : all) {
      const json other = theirs.value(input.option, json::object()), known = first.value(input.option, json::object());
      if (other != known) refuse_input(rank, input, other, known);
    }
  });
}

}  // namespace

void refuse_other_options(Communicator& ranks, const Command& command) {
  const auto compare = [&ranks](int rank, const json& theirs, const json& first) {
    const std::string where = fmt::format("rank {} on {}", rank, ranks.host(rank));
    if (theirs.at("version") != first.at("version")) {
      throw UsageError({.what = "two ranks run different versions of Plimsoll",
                        .where = where,
                        .found = fmt::format("{}, and {} on rank 0", shown_value(theirs.at("version")),
                                             shown_value(first.at("version"))),
                        .allowed = "one version on every rank",
                        .remedy = "install the same program on every machine"});
    }
    if (theirs.at("command") != first.at("command")) {
      throw UsageError({.what = "two ranks run different commands",
                        .where = where,
                        .found = fmt::format("plimsoll {}, and plimsoll {} on rank 0",
                                             shown_value(theirs.at("command")), shown_value(first.at("command"))),
                        .allowed = "one command on every rank",
                        .remedy = "start every process with the same command"});
    }
    std::vector<std::string> differences;
    for (const auto& [name, value] : theirs.at("options").items()) {
      const json known = first.at("options").value(name, json());
      if (value == known) continue;
      std::string option = name;
      std::ranges::replace(option, '_', '-');
      differences.push_back(fmt::format("--{}: {}, and {} on rank 0", option, shown_value(value), shown_value(known)));
    }
    if (differences.empty()) return;
    throw UsageError({.what = "two ranks were given different options",
                      .where = where,
                      .found = fmt::format("{}", fmt::join(differences, "; ")),
                      .allowed = "the same options on every rank; only paths, --threads and budgets may differ",
                      .remedy = "start every process with the same options, by one script or --config file"});
  };
  for_each_other(ranks,
                 {{"version", PLIMSOLL_VERSION}, {"command", command.name()}, {"options", shared_options(command)}},
                 compare);
}

void refuse_other_inputs(const Invocation& invocation, const RunOptions& options, const ModelBundle& bundle,
                         const RunInputs& inputs) {
  if (invocation.ranks == nullptr) return;
  Communicator& ranks = *invocation.ranks;
  // Data first: a new model's labels come from them.
  std::vector<Input> all;
  const auto add_data = [&all](const char* option, const char* name, const Dataset* data) {
    if (data != nullptr) all.push_back({option, name, listed(data->source().paths()), data_facts(*data)});
  };
  add_data("--data", "data set", inputs.data);
  add_data("--eval-data", "evaluation set", inputs.evaluation);
  all.push_back({"--model", "model", options.model.model, model_facts(bundle)});
  if (options.train.teacher != nullptr) {
    all.push_back({"--distil-from", "teacher", options.teacher.model, model_facts(*options.train.teacher)});
  }
  all.push_back({"--resume-from-checkpoint", "checkpoint", inputs.resume.value_or(std::filesystem::path()).string(),
                 checkpoint_facts(inputs.resume)});
  compare_inputs(ranks, all);
}

void refuse_other_files(const Invocation& invocation, const std::string& option,
                        const std::vector<std::filesystem::path>& files, FilesBy by) {
  if (invocation.ranks == nullptr) return;
  Hasher hasher;
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    const bool whole = by == FilesBy::kContents && std::filesystem::is_regular_file(file, error);
    hasher.add_text(file.filename().string());
    hasher.add_text(whole ? hash_digits(sum_of_file(file).hash)
                          : std::to_string(std::filesystem::file_size(file, error)));
  }
  const json facts = {{"size", counted(files.size(), "file")}, {"files", hash_digits(hasher.digest())}};
  compare_inputs(*invocation.ranks, {{option.c_str(), "input", listed(files), facts}});
}

}  // namespace plimsoll
