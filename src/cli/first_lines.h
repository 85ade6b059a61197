// What a run prints before it begins: which model, which data, how many updates, and what may surprise users of Hugging
// Face's Trainer.
#pragma once

#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "cli/run_options.h"

namespace plimsoll {

// Returns ", 9 labels"; empty for a model that reads texts, which has none.
std::string labels_text(const ModelBundle& bundle);

// Returns "layoutlmv3-tiny: 1408489 parameters, 9 labels; 108 pages in 108 windows; 20 updates of 8 pages"
std::string run_line(const ModelBundle& bundle, const Dataset& train, const TrainOptions& options);

// If the model's weights are random, says so, and how to get the published ones; else empty.
std::string weights_line(const ModelBundle& bundle);

// Returns this run's defaults that differ from Trainer's, as options followed by Trainer's value; empty if there are
// none.
std::string defaults_line(const RunOptions& options, const ModelBundle& bundle);

}  // namespace plimsoll
