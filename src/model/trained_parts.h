// Which parameters train: patterns over their names, and the check that they say something.
//
//   matches_pattern("encoder.layer.[0-5].*", "encoder.layer.3.output.dense.bias");   // true
#pragma once

#include <string>
#include <vector>

#include "model/definition.h"

namespace plimsoll {

// As a shell matches: * any run of characters (dots too), ? one character, [0-5] or [!0-5] one of a set; the whole
// name.
bool matches_pattern(const std::string& pattern, const std::string& name);

// The pattern of a model's embeddings, PREFIX.embeddings.*; of one whose tables stand apart, the name of the word
// embedding.
std::string embeddings_pattern(const ModelDefinition& model);

// Throws UsageError for a pattern of `options.freeze` that matches no parameter, naming what it was probably meant to
// be, and if nothing is left to train.
void check_trained_parts(const ModelDefinition& model, const ModelOptions& options);

// Elements of the parameters that train.
std::int64_t trained_parameter_count(const std::vector<ParameterSpec>& specs);

// True if a parameter of the head trains.
bool trains_head(const ModelDefinition& model, const ModelOptions& options);

// Holds all weights in `code` (Q8 or NF4), as a model can of which nothing trains.
void hold_in_codes(ModelOptions& options, DType code, bool rounds_activations);

// "1,234 of 125,926,663 parameters train (adapters of rank 8; frozen: a.*, b)"; empty where all do that may.
std::string trained_parts_text(const ModelDefinition& model, const ModelOptions& options);

}  // namespace plimsoll
