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

nlohmann::json data_json(const Dataset& data) {
  const DatasetFingerprint& of = data.fingerprint();
  std::vector<std::string> paths;
  for (const std::filesystem::path& path : data.source().paths()) paths.push_back(path.string());
  return {{"paths", paths},
          {"pages", data.source().size()},
          {"windows", data.size()},
          {"tokens", hash_digits(of.tokens)},
          {"labels", hash_digits(of.labels)},
          {"images", hash_digits(of.images)}};
}

nlohmann::json weights_json(const WeightsFile* weights) {
  nlohmann::json sums = nlohmann::json::object();
  if (weights == nullptr) return sums;
  for (const std::filesystem::path& file : weights->files()) {
    const std::string name = file.filename().string();
    const FileSums known = read_checksums(file.parent_path());
    const auto sum = known.find(name);
    sums[name] = hash_digits(sum != known.end() ? sum->second.hash : sum_of_file(file).hash);
  }
  return sums;
}

std::string tokenizer_digits(const ModelBundle& bundle) {
  return bundle.tokenizer == nullptr ? std::string() : hash_digits(bundle.tokenizer->fingerprint());
}

}  // namespace

nlohmann::json run_record(const Command& command, const ModelBundle& bundle, const Dataset& train,
                          const Dataset* evaluation, const std::string& device) {
  nlohmann::json record = {{"plimsoll", PLIMSOLL_VERSION},
                           {"options", command.values()},
                           {"given", command.values(true)},
                           {"machine", {{"processor", processor_name()}, {"device", device}}},
                           {"labels", bundle.config.task.labels},
                           {"fingerprints",
                            {{"data", data_json(train)},
                             {"model", weights_json(bundle.weights.get())},
                             {"tokenizer", tokenizer_digits(bundle)}}}};
  if (const LossOptions& loss = bundle.config.task.loss; !loss.class_weights.empty()) {
    record["class_weights"] = loss.class_weights;  // in the order of the labels
  }
  if (evaluation != nullptr) record["fingerprints"]["eval_data"] = data_json(*evaluation);
  if (bundle.adapter != nullptr) record["fingerprints"]["adapter"] = weights_json(bundle.adapter.get());
  return record;
}

nlohmann::json model_record(const ModelBundle& bundle) {
  return {{"weights", weights_json(bundle.weights.get())},
          {"adapter", weights_json(bundle.adapter.get())},
          {"tokenizer", tokenizer_digits(bundle)},
          {"labels", bundle.config.task.labels}};
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
    // An option that only this version has is not a change by the user.
    if (kElsewhere.contains(name) || !options_of(then).contains(name)) continue;
    const nlohmann::json& before = options_of(then)[name];
    if (before == value) continue;
    changes += fmt::format("{}{}: {} then, {} now", changes.empty() ? "" : "; ", name, before.dump(), value.dump());
  }
  return changes;
}

}  // namespace plimsoll
