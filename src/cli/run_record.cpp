#include "cli/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/hash.h"
#include "base/process.h"
#include "formats/checksums.h"

namespace plimsoll {
namespace {

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

// A number as a number, so that programs need not parse it; a text as it is.
nlohmann::json value_of(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_number() ? parsed : nlohmann::json(text);
}

nlohmann::json value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return option.count() > 0 && option.as<bool>();  // a flag
  if (option.count() == 0) return value_of(option.get_default_str());
  const std::vector<std::string> results = option.reduced_results();
  if (results.size() == 1) return value_of(results.front());
  return results;
}

nlohmann::json data_json(const Dataset& data) {
  const DatasetFingerprint& of = data.fingerprint();
  std::vector<std::string> paths;
  for (const std::filesystem::path& path : data.source().paths()) paths.push_back(path.string());
  return {{"paths", paths},           {"pages", data.source().size()}, {"windows", data.size()},
          {"tokens", hex(of.tokens)}, {"labels", hex(of.labels)},      {"images", hex(of.images)}};
}

nlohmann::json weights_json(const WeightsFile* weights) {
  nlohmann::json sums = nlohmann::json::object();
  if (weights == nullptr) return sums;
  for (const std::filesystem::path& file : weights->files()) {
    const std::string name = file.filename().string();
    const FileSums known = read_checksums(file.parent_path());
    const auto sum = known.find(name);
    sums[name] = hex(sum != known.end() ? sum->second.hash : sum_of_file(file).hash);
  }
  return sums;
}

}  // namespace

nlohmann::json options_json(const CLI::App& command) {
  static const std::set<std::string> kNotOfTheRun = {"help", "config", "json", ""};
  nlohmann::json options = nlohmann::json::object();
  for (const CLI::Option* option : command.get_options()) {
    std::string name = option->get_single_name();
    if (kNotOfTheRun.contains(name)) continue;
    std::replace(name.begin(), name.end(), '-', '_');
    options[name] = value_of(*option);
  }
  return options;
}

nlohmann::json run_record(const CLI::App& command, const ModelBundle& bundle, const Dataset& train,
                          const Dataset* evaluation, const std::string& device) {
  nlohmann::json record = {
      {"plimsoll", PLIMSOLL_VERSION},
      {"options", options_json(command)},
      {"machine", {{"processor", processor_name()}, {"device", device}}},
      {"labels", bundle.config.task.labels},
      {"fingerprints",
       {{"data", data_json(train)},
        {"model", weights_json(bundle.weights.get())},
        {"tokenizer", bundle.tokenizer == nullptr ? std::string() : hex(bundle.tokenizer->fingerprint())}}}};
  if (evaluation != nullptr) record["fingerprints"]["eval_data"] = data_json(*evaluation);
  if (bundle.adapter != nullptr) record["fingerprints"]["adapter"] = weights_json(bundle.adapter.get());
  return record;
}

std::string changed_options(const nlohmann::json& then, const nlohmann::json& now) {
  static const std::set<std::string> kElsewhere = {"output_dir", "resume_from_checkpoint", "overwrite_output_dir"};
  std::string changes;
  const nlohmann::json none = nlohmann::json::object();
  const auto options_of = [&none](const nlohmann::json& record) -> const nlohmann::json& {
    const bool has = record.is_object() && record.contains("options") && record["options"].is_object();
    return has ? record["options"] : none;
  };
  for (const auto& [name, value] : options_of(now).items()) {
    // An option that this version has and the other did not is no change of the user's.
    if (kElsewhere.contains(name) || !options_of(then).contains(name)) continue;
    const nlohmann::json& before = options_of(then)[name];
    if (before == value) continue;
    changes += fmt::format("{}{}: {} then, {} now", changes.empty() ? "" : "; ", name, before.dump(), value.dump());
  }
  return changes;
}

}  // namespace plimsoll
