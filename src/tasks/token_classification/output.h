// What `predict` writes and draws for a page's words.
#pragma once

#include <memory>

#include "tasks/task.h"

namespace plimsoll {

std::unique_ptr<Predictions> word_predictions(const TaskConfig& config, const PredictionOptions& options);

}  // namespace plimsoll
