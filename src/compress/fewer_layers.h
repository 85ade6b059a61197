// A model without some of its layers: those that stay are numbered anew, in their order.
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
  std::map<std::string, std::string> sources;  // the name of each parameter before, by its name now
};

// `layers`: those that stay, counted from 0, in rising order; one at least.
FewerLayers with_layers(const ModelBundle& bundle, const std::vector<std::int64_t>& layers);
std::int64_t layer_count(const ModelBundle& bundle);

// `count` layers of `all`, evenly spaced, the last among them.
std::vector<std::int64_t> spaced_layers(std::int64_t count, std::int64_t all);

// "….layer.4.output.dense" of "….layer.1.output.dense", a name of layer `from`.
std::string renumbered(const std::string& name, std::int64_t from, std::int64_t to);

}  // namespace plimsoll
