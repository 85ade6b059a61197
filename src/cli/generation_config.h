// A model's generation_config.json, which says how texts are written unless options do.
//
//   GenerationOptions form;
//   std::vector<std::string> stop_strings;
//   read_generation_config(bundle, command, form, stop_strings);  // generate's options stand there already
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "cli/command.h"
#include "train/generator.h"

namespace plimsoll {

// Takes from the file what no option of `command` sets, as in `transformers`, and warns of what is not supported. The
// tokens that end texts are those of the file, else of config.json, else the tokenizer's. Throws DataError for a value
// of another type or out of its range. Returns the file's max_length, of prompt and continuation together, if nothing
// else limits the continuation; else 0.
std::int64_t read_generation_config(const ModelBundle& bundle, const Command& command, GenerationOptions& form,
                                    std::vector<std::string>& stop_strings);

}  // namespace plimsoll
