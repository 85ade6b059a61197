#include "bundle/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "formats/json.h"
#include "tasks/tasks.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The keys of LoraConfig in PEFT 0.21. First those whose values are used below, or by the caller.
constexpr std::array<std::string_view, 15> kRead = {"peft_type",
                                                    "task_type",
                                                    "base_model_name_or_path",
                                                    "r",
                                                    "lora_alpha",
                                                    "lora_dropout",
                                                    "init_lora_weights",
                                                    "target_modules",
                                                    "exclude_modules",
                                                    "layers_to_transform",
                                                    "use_rslora",
                                                    "rank_pattern",
                                                    "alpha_pattern",
                                                    "modules_to_save",
                                                    "use_dora"};

struct Harmless {
  std::string_view key, why;  // why the key does not affect the adapter, whatever its value
};
constexpr std::array<Harmless, 14> kHarmless = {{
    {"auto_mapping", "it names the Python class of the base model"},
    {"corda_config", "only init_lora_weights \"corda\" reads it, which is refused"},
    {"ensure_weight_tying", "it concerns a saved embedding that is the head, too, which is refused"},
    {"eva_config", "it set the adapter's initial weights, which have been trained since"},
    {"fan_in_fan_out", "PEFT, too, uses the class of the layer and not this key"},
    {"inference_mode", "it says what PEFT trains, not what the adapter computes"},
    {"layers_pattern",
     "it only finds the layers that layers_to_transform counts, and the file's tensors say which those were"},
    {"loftq_config", "only init_lora_weights \"loftq\" reads it, which is refused"},
    {"lora_ga_config", "only init_lora_weights \"lora_ga\" reads it, which is refused"},
    {"megatron_core", "it names a Python module, which only megatron_config uses"},
    {"peft_version", "it says who wrote the file"},
    {"qalora_group_size", "only use_qalora reads it, which is refused"},
    {"revision", "it belongs to the base model's name on the hub; the base is checked by its tensors' shapes"},
    {"runtime_config", "it says where PEFT computes, and PEFT does not write it"},
}};

struct Neutral {
  std::string_view key, value;  // the only value besides null that does not change the adapter, as JSON
};
constexpr std::array<Neutral, 13> kNeutral = {{
    {"alora_invocation_tokens", "null"},
    {"arrow_config", "null"},
    {"bias", "\"none\""},
    {"kasa_config", "null"},
    {"layer_replication", "null"},
    {"lora_bias", "false"},
    {"megatron_config", "null"},
    {"monteclora_config", "null"},
    {"target_parameters", "[]"},
    {"trainable_token_indices", "null"},
    {"use_bdlora", "null"},
    {"use_qalora", "false"},
    {"velora_config", "null"},
}};

// How the adapter was initialized. These methods do not change the base model, so the adapter's weights are all that is
// needed.
constexpr std::array<std::string_view, 3> kPlainInits = {"gaussian", "orthogonal", "eva"};

bool has(const json& config, std::string_view key) {
  const auto found = config.find(std::string(key));
  return found != config.end() && !found->is_null();
}

json read_config_file(const fs::path& directory) {
  const fs::path path = directory / kAdapterConfigFile;
  json config = parse_json(read_text_file(path, 1 << 24), path.string());
  if (!config.is_object()) {
    throw DataError({.what = "the adapter's config cannot be read",
                     .where = path.string(),
                     .found = "not a JSON object",
                     .allowed = "adapter_config.json as PEFT or plimsoll train writes it",
                     .remedy = "copy the adapter again"});
  }
  return config;
}

std::string base_of(const json& config) {
  constexpr const char* kKey = "base_model_name_or_path";
  return has(config, kKey) && config.at(kKey).is_string() ? config.at(kKey).get<std::string>() : std::string();
}

// PiSSA, OLoRA and their like move a part of the base model's weights into the adapter: on the published base, their
// adapters add that part a second time.
void refuse_changed_base(const fs::path& directory, const json& config) {
  constexpr const char* kKey = "init_lora_weights";
  if (!has(config, kKey) || config.at(kKey).is_boolean()) return;
  const json& value = config.at(kKey);
  if (value.is_string() && std::ranges::find(kPlainInits, value.get<std::string>()) != kPlainInits.end()) return;
  throw DataError({.what = "adapter_config.json: the adapter may belong to a base model whose weights were changed",
                   .where = fmt::format("{}, key \"{}\"", (directory / kAdapterConfigFile).string(), kKey),
                   .found = value.dump(),
                   .allowed = "true, false, \"gaussian\", \"orthogonal\" or \"eva\": those do not change the base",
                   .remedy = "in PEFT, save it as an ordinary adapter, with save_pretrained(DIR, "
                             "path_initial_model_for_weight_conversion=INITIAL), or merge it into its base "
                             "(merge_and_unload), and open the result"});
}

// The task type of an adapter without a head.
constexpr const char* kNoTask = "FEATURE_EXTRACTION";

// Returns the task type if it is one of ours; empty otherwise.
std::string task_type_of(const json& config) {
  if (!has(config, "task_type")) return {};
  const auto tasks = all_tasks();
  const bool known =
      std::ranges::any_of(tasks, [&](const Task* task) { return config.at("task_type") == task->adapter_type(); });
  return known ? config.at("task_type").get<std::string>() : std::string();
}

// Refuses keys that would make the adapter something other than W x + scale B A x.
void refuse_other_kinds(const fs::path& directory, const json& config) {
  if (config.value("peft_type", json("LORA")) != "LORA") refuse_adapter_key(directory, "peft_type", config, "\"LORA\"");
  if (has(config, "task_type") && config.at("task_type") != kNoTask && task_type_of(config).empty()) {
    std::string allowed;
    for (const Task* task : all_tasks()) {
      const std::string name = fmt::format("\"{}\", ", task->adapter_type());
      if (allowed.find(name) == std::string::npos) allowed += name;
    }
    refuse_adapter_key(directory, "task_type", config, fmt::format("{}\"{}\" or null", allowed, kNoTask));
  }
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || std::ranges::find(kRead, key) != kRead.end()) continue;
    if (std::ranges::find(kHarmless, key, &Harmless::key) != kHarmless.end()) continue;
    const auto neutral = std::ranges::find(kNeutral, key, &Neutral::key);
    if (neutral != kNeutral.end()) {
      if (value == json::parse(neutral->value)) continue;
      refuse_adapter_key(directory, key, config, std::string(neutral->value));
    }
    if (value == false) continue;  // a key of a later PEFT, switched off
    refuse_adapter_key(directory, key, config, "a key of PEFT 0.21, or one that is null or false");
  }
  refuse_changed_base(directory, config);
}

double number_of(const fs::path& directory, const json& config, const char* key, double low, double high, bool whole) {
  const bool good = has(config, key) && config.at(key).is_number() && (!whole || config.at(key).is_number_integer()) &&
                    config.at(key).get<double>() >= low && config.at(key).get<double>() <= high;
  if (!good) {
    refuse_adapter_key(directory, key, config,
                       fmt::format("a {}number from {} to {}", whole ? "whole " : "", low, high));
  }
  return config.at(key).get<double>();
}

bool flag_of(const fs::path& directory, const json& config, const char* key) {
  if (!has(config, key)) return false;
  if (!config.at(key).is_boolean()) refuse_adapter_key(directory, key, config, "true or false");
  return config.at(key).get<bool>();
}

// PEFT takes the first pattern of rank_pattern or alpha_pattern that matches, so the file's order matters.
LoraPatterns patterns_of(const fs::path& directory, const json& config, const char* key, double low, bool whole) {
  if (!has(config, key)) return {};
  const std::string allowed = fmt::format("an object of {}numbers from {} to 65536", whole ? "whole " : "", low);
  if (!config.at(key).is_object()) refuse_adapter_key(directory, key, config, allowed);
  const fs::path path = directory / kAdapterConfigFile;
  const auto ordered = nlohmann::ordered_json::parse(read_text_file(path, 1 << 24));
  LoraPatterns patterns;
  for (const auto& [pattern, value] : ordered.at(key).items()) {
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < low || number > 65536 || (whole && !value.is_number_integer())) {
      refuse_adapter_key(directory, key, config, allowed);
    }
    patterns.emplace_back(pattern, number);
  }
  return patterns;
}

std::vector<std::string> names_of(const fs::path& directory, const json& config, const char* key) {
  if (!has(config, key)) return {};
  std::vector<std::string> names;
  for (const json& name : config.at(key)) {
    if (!name.is_string()) break;
    names.push_back(name.get<std::string>());
  }
  if (!config.at(key).is_array() || names.size() != config.at(key).size()) {
    refuse_adapter_key(directory, key, config, "a list of names of modules");
  }
  return names;
}

// Returns nothing for a pattern (a string): the file's tensors say what it matched.
std::vector<std::string> targets_of(const fs::path& directory, const json& config) {
  if (has(config, "target_modules") && config.at("target_modules").is_string()) return {};
  std::vector<std::string> targets = names_of(directory, config, "target_modules");
  if (has(config, "layers_to_transform") || has(config, "exclude_modules")) targets.clear();
  return targets;
}

}  // namespace

void refuse_adapter_key(const fs::path& directory, const std::string& key, const json& config, std::string allowed) {
  throw DataError({.what = fmt::format("{}: an unsupported kind of adapter", kAdapterConfigFile),
                   .where = fmt::format("{}, key \"{}\"", (directory / kAdapterConfigFile).string(), key),
                   .found = config.contains(key) ? config.at(key).dump() : "nothing",
                   .allowed = std::move(allowed),
                   .remedy = "merge it into its base with PEFT (merge_and_unload), and open the merged model"});
}

std::string adapter_base(const fs::path& directory) { return base_of(read_config_file(directory)); }

AdapterConfig read_adapter_config(const fs::path& directory) {
  const json config = read_config_file(directory);
  refuse_other_kinds(directory, config);
  AdapterConfig result;
  result.rank = static_cast<std::int64_t>(number_of(directory, config, "r", 1, 65536, true));
  result.alpha = number_of(directory, config, "lora_alpha", 0, 1e9, false);
  if (has(config, "lora_dropout")) result.dropout = number_of(directory, config, "lora_dropout", 0, 0.999999, false);
  result.rslora = flag_of(directory, config, "use_rslora");
  result.dora = flag_of(directory, config, "use_dora");
  result.rank_pattern = patterns_of(directory, config, "rank_pattern", 1, true);
  result.alpha_pattern = patterns_of(directory, config, "alpha_pattern", 0, false);
  result.targets = targets_of(directory, config);
  result.saved = names_of(directory, config, "modules_to_save");
  result.task_type = task_type_of(config);
  return result;
}

}  // namespace plimsoll
