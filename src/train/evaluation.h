// Evaluation: entity-level scores over a data set, streamed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "train/metrics.h"
#include "train/model_bundle.h"
#include "train/predictor.h"

namespace plimsoll {

struct Evaluation {
  EntityScores overall;
  std::vector<EntityMetrics::Labelled> per_label;
  std::optional<double> loss{};  // mean over labelled tokens; nothing where there are none
  std::int64_t pages = 0;
  std::int64_t missed_words = 0;  // labelled words without a prediction: cut off, or without tokens
  double seconds = 0;
  bool interrupted = false;  // it was dropped half-way, and the rest means nothing

  // "f1", "precision", "recall" or "loss" (infinite where there is none); throws UsageError otherwise.
  double metric(const std::string& name) const;
};
// True where a smaller value is a better one.
bool smaller_is_better(const std::string& metric);

// A word without a prediction (no tokens, or cut off) is a missed word: its label counts, and nothing was predicted for
// it. Where a page cannot be read and `control` has it left out, the evaluation begins anew, so that its numbers depend
// on the pages left out alone.
Evaluation evaluate(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                    const LoaderOptions& loader, const PredictControl& control = {});

nlohmann::json to_json(const Evaluation& evaluation);

}  // namespace plimsoll
