// A model's generation_config.json, which says how texts are written where no option does.
//
//   GenerationOptions form;
//   read_generation_config(bundle, command, form);  // generate's options stand in `form` already
#pragma once

#include "bundle/model_bundle.h"
#include "cli/command.h"
#include "train/generator.h"

namespace plimsoll {

// Takes from the file what no option of `command` says, as `transformers` does, and warns of what is not done here.
// The tokens that end texts are those of the file, else of config.json, else the tokenizer's. Throws DataError for a
// value of another type or out of its range.
void read_generation_config(const ModelBundle& bundle, const Command& command, GenerationOptions& form);

}  // namespace plimsoll
