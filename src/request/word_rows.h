// Finds which rows of the word embedding a run needs in memory (fit/word_rows.h): it knows its data before it begins.
#pragma once

#include <filesystem>
#include <optional>

#include "bundle/model_bundle.h"
#include "data/dataset.h"
#include "train/options.h"

namespace plimsoll {

// Sets ModelOptions::word_rows of the model, and of the teacher in `options`, to the tokens of the data and those that
// have moments in the checkpoint that the run resumes; leaves it empty if all rows are needed. `train` is nullptr for
// an evaluation.
void keep_word_rows(ModelBundle& bundle, TrainOptions& options, const Dataset* train, const Dataset* evaluation,
                    const std::optional<std::filesystem::path>& resume = std::nullopt);

}  // namespace plimsoll
