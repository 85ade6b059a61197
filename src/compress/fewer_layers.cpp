#include "compress/fewer_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/lora.h"

namespace plimsoll {

std::int64_t layer_count(const ModelBundle& bundle) {
  std::int64_t most = -1;
  for (const ParameterSpec& spec : bundle.specs()) most = std::max(most, spec.layer);
  return most + 1;
}

std::vector<std::int64_t> spaced_layers(std::int64_t count, std::int64_t all) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < count; ++layer) layers.push_back((layer + 1) * all / count - 1);
  return layers;
}

std::string renumbered(const std::string& name, std::int64_t from, std::int64_t to) {
  const std::string number = fmt::format(".{}.", from);
  const std::size_t at = name.find(number);
  check(at != std::string::npos && layer_of(name) == from, "what belongs to a layer names it");
  return fmt::format("{}.{}.{}", name.substr(0, at), to, name.substr(at + number.size()));
}

FewerLayers with_layers(const ModelBundle& bundle, const std::vector<std::int64_t>& layers) {
  FewerLayers fewer{.bundle = bundle, .sources = {}};
  if (std::ssize(layers) < layer_count(bundle)) {
    nlohmann::json config = config_json(bundle.config);
    config[std::string(bundle.config.encoder->layers_key())] = std::ssize(layers);
    if (config.contains("pruned_layers")) {
      nlohmann::json shapes = nlohmann::json::array();
      for (const std::int64_t layer : layers) {
        shapes.push_back(config["pruned_layers"][static_cast<std::size_t>(layer)]);
      }
      config["pruned_layers"] = std::move(shapes);
    }
    fewer.bundle.config = parse_config(config, bundle.origin);
    fewer.bundle.config.task = bundle.config.task;
  }
  for (const ParameterSpec& spec : fewer.bundle.specs()) {
    fewer.sources[spec.name] =
        spec.layer < 0 ? spec.name : renumbered(spec.name, spec.layer, layers.at(static_cast<std::size_t>(spec.layer)));
  }
  return fewer;
}

}  // namespace plimsoll
