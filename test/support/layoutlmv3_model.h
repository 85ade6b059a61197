// LayoutLMv3 for token classification, with a config whose values a test can change.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "families/layoutlmv3/layoutlmv3.h"
#include "families/model_config.h"
#include "tasks/token_classification/head.h"

namespace plimsoll {

struct LabelledConfig : LayoutLMv3Config {
  std::vector<std::string> labels = {"O"};
};

inline ModelDefinition layoutlmv3(const LabelledConfig& config) {
  return token_classification(layoutlmv3_encoder(config), static_cast<std::int64_t>(config.labels.size()));
}

inline ModelDefinition definition_of(const ModelConfig& config) {
  return token_classification(config.encoder, config.task.num_labels());
}

// The shape of a preset of LayoutLMv3.
inline LabelledConfig layoutlmv3_preset(std::string_view name) {
  const nlohmann::json keys = config_json(preset_config(name));
  LabelledConfig config;
  static_cast<LayoutLMv3Config&>(config) = read_layoutlmv3(ConfigReader(keys, std::string(name)));
  return config;
}

}  // namespace plimsoll
