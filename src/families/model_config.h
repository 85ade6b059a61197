// ModelConfig: a model directory's config.json as `transformers` writes it: the family's own part, the labels, and
// unknown keys, which are written back unchanged.
//
//   const ModelConfig config = read_config("layoutlmv3-base");
//   const ModelConfig preset = preset_config("roberta-small", Vocabulary{.size = 5000, .pad = 1});
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// The prefix of model_type if layers have different widths (`pruned_layers`). `transformers` has no such models: it
// refuses this name, but would misread them under the family's name.
inline constexpr const char* kPrunedPrefix = "plimsoll-pruned-";

struct ModelConfig {
  std::shared_ptr<const Encoder> encoder;
  TaskConfig task;
  nlohmann::json source = nlohmann::json::object();  // as read
};

// Reads DIR/config.json. Throws DataError for an unknown family, and, naming the key, for values that are missing or
// make no sense.
ModelConfig read_config(const std::filesystem::path& model_dir);
ModelConfig parse_config(const nlohmann::json& json, const std::string& where);

// Returns `model_type` as config.json has it; it tells whether the model is pruned.
std::string saved_model_type(const ModelConfig& config);
// Returns config.json for `transformers`: `source` with our values and the task's.
nlohmann::json config_json(const ModelConfig& config);

// What a preset takes from its tokenizer.
struct Vocabulary {
  std::int64_t size = 0;
  std::int32_t pad = 1, bos = 0, eos = 2;
};

// Return the shapes to train from scratch, "layoutlmv3-small" and so on; those of published models keep the rows of
// their word embedding. Throw UsageError for an unknown name.
std::vector<std::string> preset_names();
bool is_preset(std::string_view name);
// Returns where weights of that shape are published, or of the preset's family: "microsoft/layoutlmv3-base".
std::string published_model(std::string_view preset);
// True if a model of the preset's own shape is published.
bool is_published(std::string_view preset);
ModelConfig preset_config(std::string_view name, const std::optional<Vocabulary>& vocabulary = {});

// Returns the presets of the same family with less work, the largest first, with that config's labels.
std::vector<std::pair<std::string, ModelConfig>> smaller_presets(const ModelConfig& config);

// Returns a small model with every op of the published ones, each at about its size there, with which a machine's
// speeds are measured.
ModelConfig calibration_config();

}  // namespace plimsoll
