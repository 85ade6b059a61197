// LayoutLMv3 as a graph, and its parameters under their Hugging Face names.
//
// Letters: B samples, Nt packed text rows, V visual tokens a sample, N = Nt + B V rows, D hidden, H heads, F
// intermediate. Inputs have the names and shapes of data/batch.h's arrays.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "model/definition.h"

namespace plimsoll {

// The model for token classification that a config describes.
ModelDefinition layoutlmv3(const LayoutLMv3Config& config);

// The presets of fewer weights than that config, the largest first, with its labels.
std::vector<std::pair<std::string, ModelDefinition>> smaller_layoutlmv3(const LayoutLMv3Config& config);

// A small model with every op of the published one, each at about its size there: what a machine's speeds are measured
// with.
ModelDefinition layoutlmv3_sample();

}  // namespace plimsoll
