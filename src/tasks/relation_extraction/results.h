// Links over a data set, scored and written.
#pragma once

#include <memory>

#include "tasks/task.h"

namespace plimsoll {

// Scores precision, recall and F1 of links, over all and by the labels that they join; a link between entities that are
// never in the same window is missed.
std::unique_ptr<Scorer> link_scorer(const TaskConfig& config, const Dataset& data);
std::unique_ptr<Predictions> link_predictions(const TaskConfig& config, const PredictionOptions& options);

}  // namespace plimsoll
