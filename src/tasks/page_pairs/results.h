// How good predictions of pairs are, and how they are written.
#pragma once

#include <memory>

#include "tasks/task.h"

namespace plimsoll {

std::unique_ptr<Scorer> pair_class_scorer(const TaskConfig& config);
std::unique_ptr<Scorer> preference_scorer();
// Keeps an embedding of each page of the data, D floats, besides what every scorer keeps, because recall compares all
// pages with all.
std::unique_ptr<Scorer> similarity_scorer(const Dataset& data);

std::unique_ptr<Predictions> pair_class_predictions(const TaskConfig& config, const PredictionOptions& options);
std::unique_ptr<Predictions> preference_predictions();
std::unique_ptr<Predictions> similarity_predictions(const PredictionOptions& options);

}  // namespace plimsoll
