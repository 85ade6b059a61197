// Answers over a data set: the best spans of each question, scored and written.
#pragma once

#include <memory>

#include "tasks/task.h"

namespace plimsoll {

// Exact match and F1 as SQuAD 2 computes them, and ANLS; if the data has several answers, the nearest one counts.
std::unique_ptr<Scorer> answer_scorer(const Dataset& data);
std::unique_ptr<Predictions> answer_predictions(const PredictionOptions& options);

}  // namespace plimsoll
