// Which parameters train: patterns over their names, and the check that they say something.
//
//   matches_pattern("encoder.layer.[0-5].*", "encoder.layer.3.output.dense.bias");   // true
#pragma once

#include <string>
#include <vector>

#include "model/definition.h"

namespace plimsoll {

// Matches like a shell, and the whole name: * is any run of characters (including dots), ? one character, [0-5] or
// [!0-5] one of a set.
bool matches_pattern(const std::string& pattern, const std::string& name);

// Returns the pattern of a model's embeddings, PREFIX.embeddings.*, or the word embedding's name if the model has no
// such module.
std::string embeddings_pattern(const ModelDefinition& model);

// Throws UsageError for a pattern of `options.freeze` that matches no parameter, naming what it was probably meant to
// be, and if nothing is left to train.
void check_trained_parts(const ModelDefinition& model, const ModelOptions& options);

// Returns the number of elements of all parameters that train.
std::int64_t trained_parameter_count(const std::vector<ParameterSpec>& specs);

// Returns the word embedding that a language model's head is, too; empty if the head has weights of its own, or for
// other models.
std::string tied_table(const ModelDefinition& model);

// True if a parameter of the head trains.
bool trains_head(const ModelDefinition& model, const ModelOptions& options);

// Holds all weights in `code` (Q8 or NF4), which is possible for a model in which nothing trains.
void hold_in_codes(ModelOptions& options, DType code, bool rounds_activations);

// Returns "1,234 of 125,926,663 parameters train (adapters of rank 8; frozen: a.*, b)"; empty if all that can train do.
std::string trained_parts_text(const ModelDefinition& model, const ModelOptions& options);

}  // namespace plimsoll
