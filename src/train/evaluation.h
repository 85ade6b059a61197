// Evaluation: entity-level scores over a data set, streamed.
#pragma once

#include <nlohmann/json.hpp>

#include "train/metrics.h"
#include "train/predictor.h"

namespace plimsoll {

struct Evaluation {
  EntityScores overall;
  std::vector<EntityMetrics::Labelled> per_label;
  double loss = 0;  // mean over labelled tokens
  std::int64_t pages = 0;
  double seconds = 0;
  bool interrupted = false;  // it was dropped half-way, and the rest means nothing

  // "f1", "precision", "recall" or "loss"; throws UsageError otherwise.
  double metric(const std::string& name) const;
};
// True where a smaller value is a better one.
bool smaller_is_better(const std::string& metric);

// A word without a prediction (no tokens, or cut off) counts as "O". Where a page cannot be read and `control` has it
// left out, the evaluation begins anew, so that its numbers depend on the pages left out alone.
Evaluation evaluate(const Session& session, const LayoutLMv3Config& config, const Dataset& dataset,
                    const LoaderOptions& loader, const PredictControl& control = {});

nlohmann::json to_json(const Evaluation& evaluation);

}  // namespace plimsoll
