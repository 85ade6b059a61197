#include "families/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "families/families.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::vector<std::string> read_labels(const json& object, const ConfigReader& reader) {
  std::vector<std::string> labels;
  if (reader.has("id2label")) {
    const json& names = object.at("id2label");
    if (!names.is_object() || names.empty()) reader.fail("id2label", "the label list is unusable", "{\"0\": \"O\", …}");
    labels.resize(names.size());
    for (const auto& [key, name] : names.items()) {
      const bool digits = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos;
      const std::size_t id = digits ? std::stoul(key) : labels.size();
      if (id >= labels.size() || !name.is_string() || name.get<std::string>().empty()) {
        reader.fail("id2label", "the label list is unusable", fmt::format("names for ids 0 to {}", labels.size() - 1));
      }
      labels[id] = name.get<std::string>();
    }
    if (std::find(labels.begin(), labels.end(), "") != labels.end()) {
      reader.fail("id2label", "a label id is missing", fmt::format("names for ids 0 to {}", labels.size() - 1));
    }
    return labels;
  }
  std::int64_t count = 2;  // PretrainedConfig's default
  reader.integer("num_labels", count, 1, 100000);
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

const Family& family_of(const ConfigReader& reader) {
  const json& object = reader.object();
  json found = object.is_object() ? object.value("model_type", json()) : json();
  const bool pruned = reader.has("pruned_layers");
  if (found.is_string() && found.get<std::string>().starts_with(kPrunedPrefix) != pruned) {
    reader.fail("model_type", "the model's family and its layers contradict each other",
                fmt::format("\"{}…\" with the key \"pruned_layers\", or neither", kPrunedPrefix),
                "use a model directory as plimsoll prune writes it");
  }
  if (pruned && found.is_string()) found = found.get<std::string>().substr(std::string_view(kPrunedPrefix).size());
  std::vector<std::string> known;
  for (const Family& family : all_families()) {
    if (found == family.model_type) return family;
    known.push_back(fmt::format("\"{}\"", family.model_type));
  }
  std::string remedy = "use a directory of one of these families, as `transformers` saves it";
  if (found.is_string()) {
    std::vector<std::string> names;
    for (const Family& family : all_families()) names.emplace_back(family.model_type);
    if (const std::string near = nearest(found.get<std::string>(), names); !near.empty()) {
      remedy += fmt::format("; \"{}\" is the nearest", near);
    }
  }
  reader.fail("model_type", "the model's family is not known", fmt::format("{}", fmt::join(known, ", ")),
              std::move(remedy));
}

struct FoundPreset {
  const Family* family = nullptr;
  const Preset* preset = nullptr;
};
FoundPreset find_preset(std::string_view name) {
  for (const Family& family : all_families()) {
    for (const Preset& preset : family.presets) {
      if (preset.name == name) return {&family, &preset};
    }
  }
  return {};
}

// Returns "TokenClassification" for "LayoutLMv3ForTokenClassification", and "CausalLM" for its earlier name,
// "GPT2LMHeadModel"; empty for a model without a head.
std::string read_architecture(const json& object) {
  const json names = object.value("architectures", json());
  if (!names.is_array() || names.empty() || !names.front().is_string()) return {};
  const auto name = names.front().get<std::string>();
  if (name.ends_with("LMHeadModel")) return "CausalLM";
  const std::size_t at = name.rfind("For");
  return at == std::string::npos ? std::string() : name.substr(at + 3);
}

std::string read_problem_type(const ConfigReader& reader) {
  if (!reader.has("problem_type")) return {};
  const json& value = reader.object().at("problem_type");
  for (const char* known : {"single_label_classification", "multi_label_classification", "regression"}) {
    if (value == known) return known;
  }
  reader.fail("problem_type", "the problem is not known",
              "\"single_label_classification\", \"multi_label_classification\" or \"regression\"");
}

// Reads a key of our own: `transformers` has no models for links.
std::vector<std::pair<std::string, std::string>> read_link_labels(const ConfigReader& reader) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (!reader.has("link_labels")) return pairs;
  const auto refuse = [&] {
    reader.fail("link_labels", "pairs of labels are not understood", "an array of pairs of labels, [from, to]");
  };
  const json& list = reader.object().at("link_labels");
  if (!list.is_array()) refuse();
  for (const json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) refuse();
    pairs.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return pairs;
}

// Returns the work of a token in the layers, up to a factor.
std::int64_t work_of(const ModelConfig& config) {
  return config.encoder->facts().hidden_size * static_cast<std::int64_t>(config.encoder->layer_outputs().size());
}

}  // namespace

ModelConfig parse_config(const json& object, const std::string& where) {
  const ConfigReader reader(object, where);
  ModelConfig config;
  config.encoder = family_of(reader).read(reader);
  config.task = {.architecture = read_architecture(object),
                 .labels = read_labels(object, reader),
                 .problem_type = read_problem_type(reader),
                 .link_labels = read_link_labels(reader)};
  reader.integer("max_entities", config.task.max_entities, 1, 4096);
  config.source = object;
  return config;
}

ModelConfig read_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "config.json";
  const std::string text = read_text_file(path, 1 << 24);
  const json object = parse_json(text, path.string());
  if (object.is_discarded()) {
    const JsonFault fault = find_json_fault(text);
    throw DataError({.what = fault.is_cut         ? "config.json ends too early"
                             : fault.is_too_large ? "config.json has a number that is too large for a double"
                                                  : "config.json is not valid JSON",
                     .where = fmt::format("{}, line {}, column {}", path.string(), fault.line, fault.column),
                     .found = fault.found,
                     .allowed = "a JSON object as `transformers` saves it",
                     .remedy = "mend it there, or copy the model directory again"});
  }
  return parse_config(object, path.string());
}

std::string saved_model_type(const ModelConfig& config) {
  return fmt::format("{}{}", config.source.contains("pruned_layers") ? kPrunedPrefix : "",
                     config.encoder->model_type());
}

json config_json(const ModelConfig& config) {
  json object = config.source;
  const bool pruned = object.contains("pruned_layers");
  object["model_type"] = saved_model_type(config);
  if (!config.task.architecture.empty()) {
    object["architectures"] = {
        fmt::format("{}{}", pruned ? "Pruned" : "", config.encoder->model_class(config.task.architecture))};
  }
  if (!config.task.problem_type.empty()) object["problem_type"] = config.task.problem_type;
  object.erase("link_labels");
  if (config.task.max_entities != TaskConfig::kMaxEntities) object["max_entities"] = config.task.max_entities;
  for (const auto& [from, to] : config.task.link_labels) object["link_labels"].push_back(json::array({from, to}));
  config.encoder->write_config(object);
  json names = json::object(), ids = json::object();
  for (std::size_t i = 0; i < config.task.labels.size(); ++i) {
    names[std::to_string(i)] = config.task.labels[i];
    ids[config.task.labels[i]] = i;
  }
  object["id2label"] = names;
  object["label2id"] = ids;
  object.erase("num_labels");
  object.erase("torch_dtype");
  object["dtype"] = "float32";
  object.erase("quantization_config");  // it is saved as floats, and so no longer quantized
  return object;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Family& family : all_families()) {
    std::transform(family.presets.rbegin(), family.presets.rend(), std::back_inserter(names),
                   [](const Preset& preset) { return std::string(preset.name); });
  }
  return names;
}

std::string published_model(std::string_view preset) {
  const FoundPreset found = find_preset(preset);
  if (found.preset == nullptr) return {};
  if (!found.preset->repository.empty()) return std::string(found.preset->repository);
  const std::vector<Preset>& presets = found.family->presets;
  const auto smallest =
      std::find_if(presets.rbegin(), presets.rend(), [](const Preset& other) { return !other.repository.empty(); });
  return smallest == presets.rend() ? std::string() : std::string(smallest->repository);
}

bool is_published(std::string_view preset) {
  const FoundPreset found = find_preset(preset);
  return found.preset != nullptr && !found.preset->repository.empty();
}

bool is_preset(std::string_view name) { return find_preset(name).preset != nullptr; }

ModelConfig preset_config(std::string_view name, const std::optional<Vocabulary>& vocabulary) {
  const FoundPreset found = find_preset(name);
  if (found.preset == nullptr) {
    throw UsageError({.what = "no such model preset",
                      .where = "--model",
                      .found = std::string(name),
                      .allowed = fmt::format("a model directory, or one of {}", fmt::join(preset_names(), ", "))});
  }
  json object = found.preset->keys;
  object["model_type"] = found.family->model_type;
  object["id2label"] = {{"0", "O"}};
  object["architectures"] = {fmt::format("For{}", found.family->head)};
  if (vocabulary) {
    const std::int64_t published = !found.preset->repository.empty()
                                       ? parse_config(object, std::string(name)).encoder->facts().vocab_size
                                       : std::int64_t{0};
    object["vocab_size"] = std::max(published, vocabulary->size);
    const auto set_token = [&](const char* key, std::int32_t id) { object[key] = id < 0 ? json() : json(id); };
    set_token("pad_token_id", vocabulary->pad);
    set_token("bos_token_id", vocabulary->bos);
    set_token("eos_token_id", vocabulary->eos);
  }
  return parse_config(object, std::string(name));
}

std::vector<std::pair<std::string, ModelConfig>> smaller_presets(const ModelConfig& config) {
  std::vector<std::pair<std::string, ModelConfig>> smaller;
  for (const Family& family : all_families()) {
    if (family.model_type != config.encoder->model_type()) continue;
    for (const Preset& preset : family.presets) {
      ModelConfig other = preset_config(preset.name);
      if (work_of(other) >= work_of(config)) continue;
      other.task = config.task;
      smaller.emplace_back(preset.name, std::move(other));
    }
  }
  return smaller;
}

ModelConfig calibration_config() {
  json object = find_preset("layoutlmv3-base").preset->keys;
  object["model_type"] = "layoutlmv3";
  object["num_hidden_layers"] = 1;
  object["vocab_size"] = 1000;
  object["id2label"] = {{"0", "O"}};
  object["architectures"] = {"ForTokenClassification"};
  return parse_config(object, "calibration");
}

}  // namespace plimsoll
