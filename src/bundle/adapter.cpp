#include "bundle/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "bundle/adapter_config.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "model/file_values.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr const char* kWeightsBinFile = "adapter_model.bin";
// In the metadata of kWeightsFile: fingerprint_of_base.
constexpr const char* kBaseFingerprintKey = "base_fingerprint";

// Returns the module of "base_model.model.<module>.lora_A.weight", or of its magnitude with DoRA; empty for other
// names.
std::string module_of(const std::string& tensor, bool dora) {
  for (const std::string suffix : {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"}) {
    if (suffix == ".lora_magnitude_vector" && !dora) continue;
    if (!tensor.starts_with(kAdapterPrefix) || !tensor.ends_with(suffix)) continue;
    const std::size_t begin = std::string_view(kAdapterPrefix).size();
    return tensor.substr(begin, tensor.size() - begin - suffix.size());
  }
  return {};
}

// Returns the modules of the head without the encoder's prefix, as PEFT's modules_to_save names them: "classifier",
// "pooler".
std::set<std::string> head_modules(const ModelDefinition& model) {
  std::set<std::string> modules;
  const std::string prefix = fmt::format("{}.", model.encoder().prefix());
  for (const ParameterSpec& spec : model.specs()) {
    if (!spec.is_head()) continue;
    const std::string name = spec.name.starts_with(prefix) ? spec.name.substr(prefix.size()) : spec.name;
    modules.insert(name.substr(0, name.find('.')));
  }
  return modules;
}

// Returns the modules of the encoder that modules_to_save matches, without those within another, as PEFT matches: by
// the end of the name, with or without a dot. A name that matches none is ignored, as in PEFT, whose list has "score"
// by default.
std::set<std::string> saved_in(const AdapterConfig& config, const ModelDefinition& model) {
  std::set<std::string> modules;
  for (const ParameterSpec& spec : model.specs()) {
    if (spec.is_head()) continue;
    for (std::size_t dot = spec.name.find('.'); dot != std::string::npos; dot = spec.name.find('.', dot + 1)) {
      const std::string module = spec.name.substr(0, dot);
      if (std::ranges::none_of(config.saved, [&](const std::string& end) { return module.ends_with(end); })) continue;
      modules.insert(module);
      break;
    }
  }
  return modules;
}

// Returns the modules that have an adapter in the file. Each of its tensors must be an adapter's, the head's or a saved
// module's.
std::set<std::string> modules_in(const WeightsFile& weights, const ModelDefinition& model, const LoraOptions& lora) {
  std::set<std::string> maps, modules, ignored, head;
  for (const LinearMap& map : model.encoder().linear_maps()) maps.insert(map.name);
  for (const ParameterSpec& spec : model.specs()) {
    const bool unused = spec.part == ParameterSpec::Part::kEncoderMatrix && !spec.trains;
    if (unused || spec.part == ParameterSpec::Part::kAttentionTable) {
      ignored.insert(spec.name.substr(0, spec.name.rfind('.')));
    }
    if (spec.is_head() || lora.saves(spec.name)) head.insert(kAdapterPrefix + spec.name);
  }
  for (const TensorEntry& entry : weights.entries()) {
    const std::string module = module_of(entry.name, lora.dora);
    if (maps.contains(module)) {
      modules.insert(module);
      continue;
    }
    // PEFT's "all-linear" includes the relative position tables, which are looked up and never multiplied, and the
    // unused maps of LiLT's last layer.
    if (ignored.contains(module)) continue;
    if (head.contains(entry.name)) continue;
    std::string_view inner = entry.name;
    if (inner.starts_with(kAdapterPrefix)) inner.remove_prefix(std::string_view(kAdapterPrefix).size());
    if (inner.starts_with("lm_head.") || inner.find("embed_tokens.") != std::string_view::npos ||
        inner.find(".lora_embedding_") != std::string_view::npos) {
      throw DataError({.what = "LoRA of the head or of the word embedding is not supported",
                       .where = weights.path().string(),
                       .found = fmt::format("'{}'", entry.name),
                       .allowed = "LoRA of linear maps in the encoder's layers",
                       .remedy = "merge it with PEFT (merge_and_unload); if the head is tied to the embedding, untie "
                                 "them first (tie_word_embeddings=False, and a copy as lm_head.weight): otherwise "
                                 "merging changes both"});
    }
    // A language model's head is its base's.
    const std::string of_head = head.empty() ? std::string() : fmt::format("the head's, such as '{}', ", *head.begin());
    throw DataError({.what = "the adapter has a tensor that the model does not have",
                     .where = weights.path().string(),
                     .found = fmt::format("'{}' {}", entry.name, to_string(entry.type)),
                     .allowed = fmt::format("lora_A and lora_B of linear maps of the encoder's layers, such as '{}{}', "
                                            "{}and what is in modules_to_save",
                                            kAdapterPrefix, lora_a_name(*maps.begin()), of_head),
                     .remedy = "pass the base model that it was trained on with --base-model, or merge it with PEFT"});
  }
  return modules;
}

// Returns the modules that adapter_config.json asks for, if it names them one by one or by the end of their names.
std::set<std::string> modules_asked_for(const AdapterConfig& adapter, const ModelDefinition& model) {
  std::set<std::string> modules;
  for (const std::string& target : adapter.targets) {
    for (const LinearMap& map : model.encoder().linear_maps()) {
      if (map.name == target || map.name.ends_with("." + target)) modules.insert(map.name);
    }
  }
  return modules;
}

// Returns the number as PEFT writes it: 16 rather than 16.0.
json number_json(double value) {
  return value == std::floor(value) ? json(static_cast<std::int64_t>(value)) : json(value);
}

template <typename Number>
json pattern_json(const std::map<std::string, Number>& values, const std::vector<LinearMap>& maps) {
  json object = json::object();
  for (const auto& [pattern, value] : patterns_of({values.begin(), values.end()}, maps)) {
    object[pattern] = number_json(value);
  }
  return object;
}

// Returns the head's modules, and the others by their whole names, because PEFT matches any module that ends like this.
std::set<std::string> modules_to_save(const ModelBundle& bundle) {
  std::set<std::string> modules = head_modules(bundle.definition());
  modules.insert(bundle.options.lora.saved.begin(), bundle.options.lora.saved.end());
  return modules;
}

json config_of(const ModelBundle& bundle) {
  const LoraOptions& lora = bundle.options.lora;
  const std::vector<LinearMap> maps = bundle.definition().encoder().linear_maps();
  return {{"alpha_pattern", pattern_json(lora.alphas, maps)},
          {"auto_mapping", nullptr},
          {"base_model_name_or_path", bundle.base},
          {"bias", "none"},
          {"fan_in_fan_out", std::ranges::any_of(bundle.specs(), &ParameterSpec::transposed)},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"layers_pattern", nullptr},
          {"layers_to_transform", nullptr},
          {"lora_alpha", number_json(lora.alpha)},
          {"lora_dropout", lora.dropout},
          {"modules_to_save", modules_to_save(bundle)},
          {"peft_type", "LORA"},
          {"r", lora.rank},
          {"rank_pattern", pattern_json(lora.ranks, maps)},
          {"revision", nullptr},
          {"target_modules", lora_targets(maps, lora.modules)},
          {"task_type", bundle.task().adapter_type()},
          {"use_dora", lora.dora},
          {"use_rslora", lora.rslora}};
}

// w[out, in] += scale b[out, rank] a[rank, in], each element in double; with magnitudes[out] each row is then scaled to
// that length. Rounded once.
void fold(std::span<float> w, std::span<const float> a, std::span<const float> b, std::int64_t rank, double scale,
          std::span<const float> magnitudes) {
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t in = a.size() / r, out = b.size() / r;
  std::vector<double> sums(in);
  for (std::size_t m = 0; m < out; ++m) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::size_t k = 0; k < r; ++k) {
      for (std::size_t i = 0; i < in; ++i) sums[i] += double{b[m * r + k]} * double{a[k * in + i]};
    }
    double squares = 0;
    for (std::size_t i = 0; i < in; ++i) {
      sums[i] = double{w[m * in + i]} + scale * sums[i];
      squares += sums[i] * sums[i];
    }
    const double factor = magnitudes.empty() ? 1 : double{magnitudes[m]} / std::sqrt(squares);
    for (std::size_t i = 0; i < in; ++i) w[m * in + i] = static_cast<float>(factor * sums[i]);
  }
}

// Reads one parameter at a time, whatever file has it.
class ParameterReader {
 public:
  explicit ParameterReader(const ModelBundle& bundle) : bundle_(bundle) {}

  void read(const ParameterSpec& spec, std::vector<float>& values) const {
    values.resize(static_cast<std::size_t>(spec.shape.elements()));
    load_parameters({spec}, bundle_.source(0),
                    [&](const std::string&) { return ParameterPlace(std::span<float>(values)); });
  }

 private:
  const ModelBundle& bundle_;
};

}  // namespace

namespace {

void read_patterns(const fs::path& directory, const AdapterConfig& config, LoraOptions& lora) {
  const auto values = [&](const LoraPatterns& patterns, const char* key) {
    try {
      return pattern_values(patterns, lora.modules);
    } catch (const std::invalid_argument&) {
      json texts = json::array();
      for (const auto& [pattern, value] : patterns) texts.push_back(pattern);
      refuse_adapter_key(directory, key, {{key, texts}}, "regular expressions without what Python's alone have");
    }
  };
  lora.alphas = values(config.alpha_pattern, "alpha_pattern");
  for (const auto& [module, rank] : values(config.rank_pattern, "rank_pattern")) {
    lora.ranks[module] = static_cast<std::int64_t>(rank);
  }
}

}  // namespace

bool is_adapter(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / kAdapterConfigFile, error);
}

Adapter open_adapter(const fs::path& directory, const ModelDefinition& model) {
  const AdapterConfig adapter = read_adapter_config(directory);
  Adapter result;
  result.base = adapter_base(directory);
  result.lora.rank = adapter.rank;
  result.lora.alpha = adapter.alpha;
  result.lora.dropout = adapter.dropout;
  result.lora.rslora = adapter.rslora;
  result.lora.dora = adapter.dora;
  const bool safe = fs::exists(directory / kWeightsFile) || !fs::exists(directory / kWeightsBinFile);
  if (safe && !fs::exists(directory / kWeightsFile)) {
    throw DataError({.what = "the adapter has no weights",
                     .where = directory.string(),
                     .found = fmt::format("{} alone", kAdapterConfigFile),
                     .allowed = fmt::format("{} or {} beside it", kWeightsFile, kWeightsBinFile),
                     .remedy = "copy the adapter again"});
  }
  result.weights = std::make_shared<WeightsFile>(open_weights(directory / (safe ? kWeightsFile : kWeightsBinFile)));
  if (safe) {
    const SafetensorsMetadata metadata = SafetensorsReader(directory / kWeightsFile).metadata();
    if (const auto known = metadata.find(kBaseFingerprintKey); known != metadata.end()) {
      result.base_fingerprint = known->second;
    }
  }
  result.lora.saved = saved_in(adapter, model);
  if (const std::string table = tied_table(model); !table.empty() && result.lora.saves(table)) {
    refuse_adapter_key(
        directory, "modules_to_save", {{"modules_to_save", adapter.saved}},
        fmt::format("modules without '{}', which is the head, too: with PEFT the head would stay that of "
                    "the base",
                    table));
  }
  result.lora.modules = modules_in(*result.weights, model, result.lora);
  result.lora.modules.merge(modules_asked_for(adapter, model));
  // PEFT puts no adapter into modules that train in full.
  std::erase_if(result.lora.modules, [&](const std::string& module) { return is_within(module, result.lora.saved); });
  if (result.lora.modules.empty()) {
    refuse_adapter_key(directory, "target_modules", {{"target_modules", adapter.targets}},
                       "at least one linear map of the encoder's layers");
  }
  read_patterns(directory, adapter, result.lora);
  return result;
}

namespace {

// Does the same for an adapter of a language model, whose head is the base's.
std::string language_model_readme(const ModelBundle& bundle, const std::string& model_class, const std::string& holds) {
  return fmt::format(R"(# A LoRA adapter for {0}

This directory holds {1}. The base model's weights are not in it: they are in `{2}`.

With PEFT (`pip install peft transformers`), from this directory:

```python
from peft import PeftModel
from transformers import {0}

base = {0}.from_pretrained("{2}")
model = PeftModel.from_pretrained(base, ".").eval()
```

With Plimsoll: `plimsoll generate --model . --prompt TEXT` (`--base-model DIR` if the base has moved), or
`plimsoll merge --adapter . --output-dir merged` for a whole model that needs no adapter.
)",
                     model_class, holds, bundle.base);
}

// Says how to open this directory, for whoever finds it.
std::string readme(const ModelBundle& bundle) {
  const std::string model_class = bundle.config.encoder->model_class(bundle.config.task.architecture);
  const std::string holds = adapters_text(bundle.options.lora, trains_head(bundle.definition(), bundle.options));
  if (bundle.task().reads_text()) return language_model_readme(bundle, model_class, holds);
  return fmt::format(R"(# A LoRA adapter for {0}

This directory holds {1}; the head is for {2} labels. The base model's weights are not in
it: they are in `{3}`.

With PEFT (`pip install peft transformers`), from this directory:

```python
from peft import PeftModel
from transformers import AutoConfig, {0}

config = AutoConfig.from_pretrained(".")  # the labels
base = {0}.from_pretrained("{3}", config=config, ignore_mismatched_sizes=True)
model = PeftModel.from_pretrained(base, ".").eval()
```

With Plimsoll: `plimsoll predict --model . --data pages.jsonl` (`--base-model DIR` if the base has moved), or
`plimsoll merge --adapter . --output-dir merged` for a whole model that needs no adapter.
)",
                     model_class, holds, bundle.config.task.num_labels(), bundle.base);
}

}  // namespace

std::string fingerprint_of_base(const ModelBundle& bundle) {
  std::array<float, 256> values{};
  std::array<std::byte, values.size() * sizeof(double)> staging;
  Hasher hasher;
  for (const ParameterSpec& spec : bundle.specs()) {
    const std::optional<std::string> name =
        spec.in_adapter_file() ? std::nullopt : name_in_weights(bundle.source(0), spec.name);
    if (!name) continue;
    hasher.add_text(fmt::format("{} {}", spec.name, to_string(spec.file_shape)));
    const TensorType& type = bundle.weights->at(*name).type;
    if (!is_floating(type.dtype)) continue;
    const std::span<float> first =
        std::span(values).first(std::min(values.size(), static_cast<std::size_t>(type.shape.elements())));
    bundle.weights->read_as_f32(*name, 0, first, staging);
    hasher.add(std::as_bytes(first));
  }
  return hash_digits(hasher.digest());
}

FileSums save_adapter(const fs::path& directory, const ModelBundle& bundle, const ParameterSource& original,
                      const ParameterMemory& memory) {
  FileSums sums;
  sums[kAdapterConfigFile] = write_text_file(directory / kAdapterConfigFile, json_text(config_of(bundle), 2) + "\n");
  sums["README.md"] = write_text_file(directory / "README.md", readme(bundle));
  std::vector<ParameterSpec> saved;
  for (ParameterSpec& spec : bundle.specs()) {
    if (spec.in_adapter_file()) saved.push_back(std::move(spec));
  }
  // The directory that the config names may have another model one day.
  SafetensorsMetadata metadata{{"format", "pt"}};
  if (!bundle.base_fingerprint.empty()) metadata[kBaseFingerprintKey] = bundle.base_fingerprint;
  sums[kWeightsFile] = save_parameters(directory / kWeightsFile, saved, original, memory, metadata, kAdapterPrefix);
  return sums;
}

FileSums merge_adapter(const fs::path& directory, const ModelBundle& bundle, DType type) {
  verify_weights(bundle);
  const LoraOptions& lora = bundle.options.lora;
  const ParameterReader reader(bundle);
  std::map<std::string, ParameterSpec> adapters;
  std::vector<ParameterSpec> merged;
  std::vector<TensorDeclaration> declarations;
  for (const ParameterSpec& spec : bundle.specs()) {
    if (spec.is_adapter()) {
      adapters.emplace(spec.name, spec);
    } else {
      merged.push_back(spec);
      declarations.push_back({spec.name, {type, spec.file_shape}});
    }
  }
  FileSums sums = save_model_parts(directory, bundle, type);
  SafetensorsWriter writer(directory / "model.safetensors", std::move(declarations));
  std::vector<float> values, a, b, magnitudes;
  for (const ParameterSpec& spec : merged) {
    reader.read(spec, values);
    constexpr std::string_view kSuffix = ".weight";
    const std::string module = spec.name.substr(0, spec.name.size() - std::min(kSuffix.size(), spec.name.size()));
    if (spec.name.ends_with(kSuffix) && lora.modules.contains(module)) {
      reader.read(adapters.at(lora_a_name(module)), a);
      reader.read(adapters.at(lora_b_name(module)), b);
      if (lora.dora) reader.read(adapters.at(magnitude_name(module)), magnitudes);
      fold(values, a, b, lora.rank_of(module), lora.scale_of(module), magnitudes);
    }
    write_values(writer, spec, values);
  }
  sums["model.safetensors"] = writer.finish();
  return sums;
}

}  // namespace plimsoll
