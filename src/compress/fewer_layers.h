// A model without some of its layers: the remaining ones are renumbered in their order.
//
//   const FewerLayers fewer = with_layers(bundle, {0, 2, 5});
//   fewer.bundle.specs();                                        // of three layers
//   fewer.sources.at("bert.encoder.layer.1.output.dense.bias");  // "bert.encoder.layer.2.output.dense.bias"
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"

namespace plimsoll {

struct FewerLayers {
  ModelBundle bundle;                          // with the smaller config; its weights are still those of all layers
  std::map<std::string, std::string> sources;  // the name of each parameter in the old model, by its new name
};

// `layers` are those that remain, counted from 0, ascending; at least one.
FewerLayers with_layers(const ModelBundle& bundle, const std::vector<std::int64_t>& layers);
std::int64_t layer_count(const ModelBundle& bundle);

// Returns `count` layers of `all`, evenly spaced, including the last.
std::vector<std::int64_t> spaced_layers(std::int64_t count, std::int64_t all);

// Returns "….layer.4.output.dense" for "….layer.1.output.dense", a name of layer `from`.
std::string renumbered(const std::string& name, std::int64_t from, std::int64_t to);

}  // namespace plimsoll
