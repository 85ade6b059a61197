// Answers over a data set: the best spans of each question, scored and written.
#pragma once

#include <cstddef>
#include <memory>

#include "tasks/task.h"

namespace plimsoll {

inline constexpr std::size_t kListedAnswers = 5;  // answers written without --return-all-scores
inline constexpr std::size_t kSearchBytes = 720;  // of a question's spans

// Exact match and F1 as SQuAD 2 computes them, and ANLS; if the data has several answers, the nearest one counts.
std::unique_ptr<Scorer> answer_scorer(const Dataset& data);
std::unique_ptr<Predictions> answer_predictions(const PredictionOptions& options);

}  // namespace plimsoll
