// The families of models, one row each: README.md in this folder says how to add one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "families/parts/config_reader.h"
#include "model/definition.h"

namespace plimsoll {

// A shape to train from scratch: the keys of config.json in which it differs from the family's defaults.
struct Preset {
  std::string_view name;
  nlohmann::json keys;
  // Where a model of this shape is published; its word embedding keeps the published rows. Empty if there is none.
  std::string_view repository = {};
};

struct Family {
  std::string_view model_type;  // in config.json
  std::shared_ptr<const Encoder> (*read)(const ConfigReader& reader);
  std::vector<Preset> presets;  // the largest first
  // The head of presets, and of models whose config.json names no known one, until a task is named: what follows "For" in
  // its class's name in transformers.
  std::string_view head = "TokenClassification";
};

const std::vector<Family>& all_families();
// Of the encoder's family.
std::string_view usual_head(const Encoder& encoder);

}  // namespace plimsoll
