// What a run says before it begins: which model, which data, how many updates, and what may surprise somebody who comes
// from Hugging Face's Trainer.
#pragma once

#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "cli/run_options.h"

namespace plimsoll {

// ", 9 labels"; empty for a model that reads texts, which has none.
std::string labels_text(const ModelBundle& bundle);

// "layoutlmv3-tiny: 1408489 parameters, 9 labels; 108 pages in 108 windows; 20 updates of 8 pages"
std::string run_line(const ModelBundle& bundle, const Dataset& train, const TrainOptions& options);

// Where the model's weights are random, that they are, and how to get the published ones; else empty.
std::string weights_line(const ModelBundle& bundle);

// The defaults that this run has and Trainer would not have, as options with Trainer's value behind them; empty: none.
std::string defaults_line(const RunOptions& options, const ModelBundle& bundle);

}  // namespace plimsoll
