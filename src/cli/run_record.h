// args.json: the options and inputs of a run, for readers of its results, and for the run that resumes its checkpoints.
//
//   {"plimsoll": "1.0.0", "options": {"learning_rate": 5e-05, …}, "fingerprints": {"data": {…}, …}, …} (JSON)
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bundle/model_bundle.h"
#include "cli/command_line.h"
#include "data/dataset.h"

namespace plimsoll {

// Returns all of args.json. `evaluation` may be nullptr. Weights are read once, unless checksums.json has their sum.
nlohmann::json run_record(const Command& command, const ModelBundle& bundle, const Dataset& train,
                          const Dataset* evaluation, const std::string& device);

// Returns what identifies a model: the fingerprints of its weights, adapter and tokenizer, and its labels.
nlohmann::json model_record(const ModelBundle& bundle);

// Returns the options that differ between two records, as text: "learning_rate: 5e-05 then, 1e-4 now; …"; empty if
// there are none. The output directory and the checkpoint are left out.
std::string changed_options(const nlohmann::json& then, const nlohmann::json& now);

}  // namespace plimsoll
