// args.json: what a run was asked to do and with what, for whoever reads its results later, and for the run that goes
// on from its checkpoints.
//
//   {"plimsoll": "1.0.0", "options": {"learning_rate": 5e-05, …}, "fingerprints": {"data": {…}, …}, …} (JSON)
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bundle/model_bundle.h"
#include "cli/command_line.h"
#include "data/dataset.h"

namespace plimsoll {

// The whole of args.json. `evaluation`: nullptr without. Weights are read once, unless checksums.json has their sum.
nlohmann::json run_record(const Command& command, const ModelBundle& bundle, const Dataset& train,
                          const Dataset* evaluation, const std::string& device);

// What tells one model from another: its weights, adapter and tokenizer by their fingerprints, and its labels.
nlohmann::json model_record(const ModelBundle& bundle);

// The options that differ between two records, as text: "learning_rate: 5e-05 then, 1e-4 now; …". Where the run writes,
// and from which checkpoint, is left out. Empty if none does.
std::string changed_options(const nlohmann::json& then, const nlohmann::json& now);

}  // namespace plimsoll
