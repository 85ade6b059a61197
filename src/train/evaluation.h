// Evaluation: a task's scores over a data set, streamed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "tasks/scores.h"
#include "train/predictor.h"

namespace plimsoll {

// A page and its mean loss.
struct PageLoss {
  std::uint32_t page = 0;  // index in the data
  double loss = 0;
};

struct Evaluation {
  Scores scores;
  std::optional<double> loss{};  // mean over the labelled items; nothing if there are none
  std::int64_t pages = 0;
  double seconds = 0;
  std::vector<PageLoss> worst{};  // pages with the highest loss, in descending order
  bool interrupted = false;       // it was abandoned, and the rest is meaningless

  // Returns a metric by the name that metric_name gives; its value is NaN if this data has none.
  Scores::Metric metric(const std::string& name) const;
};

// Returns the metric that --metric-for-best-model names: one of the task's, the first if `given` is empty, or "loss";
// the name may begin with "eval_". Throws UsageError for another.
std::string metric_name(const ModelBundle& bundle, const std::string& given);

// `worst` is the number of pages with the highest loss to name. If a page cannot be read and `control` leaves it out,
// the evaluation starts again, so that its numbers depend only on which pages are left out.
Evaluation evaluate(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                    const LoaderOptions& loader, const PredictControl& control = {}, std::size_t worst = 0);

nlohmann::json to_json(const Evaluation& evaluation);

}  // namespace plimsoll
