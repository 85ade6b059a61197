#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.h"

namespace plimsoll {
namespace {

nlohmann::json scores_json(const EntityScores& scores) {
  return {{"f1", scores.f1}, {"precision", scores.precision}, {"recall", scores.recall}, {"support", scores.support}};
}

Evaluation evaluate_once(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                         const LoaderOptions& loader, const PredictControl& control);

}  // namespace

double Evaluation::metric(const std::string& name) const {
  if (name == "f1" || name == "eval_f1") return overall.f1;
  if (name == "precision" || name == "eval_precision") return overall.precision;
  if (name == "recall" || name == "eval_recall") return overall.recall;
  if (name == "loss" || name == "eval_loss") return loss.value_or(std::numeric_limits<double>::infinity());
  throw UsageError({.what = "no such metric",
                    .where = "--metric-for-best-model",
                    .found = name,
                    .allowed = "f1, precision, recall or loss"});
}

bool smaller_is_better(const std::string& metric) { return metric == "loss" || metric == "eval_loss"; }

Evaluation evaluate(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                    const LoaderOptions& loader, const PredictControl& control) {
  PredictControl now{.skipped = control.skipped, .interrupt = control.interrupt};
  for (int bad_in_a_row = 0;;) {
    try {
      return evaluate_once(session, bundle, dataset, loader, now);
    } catch (const BadPageError& error) {
      const bool none_left = now.skipped.size() + 1 >= dataset.source().size();
      if (!control.on_bad_page || ++bad_in_a_row >= kMostBadPagesInARow || none_left) throw;
      control.on_bad_page(error);
      now.skipped.push_back(error.page());
    }
  }
}

namespace {

Evaluation evaluate_once(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                         const LoaderOptions& loader, const PredictControl& control) {
  const auto begin = std::chrono::steady_clock::now();
  EntityMetrics metrics(bundle.config.labels);
  std::vector<std::int32_t> gold, predicted;
  std::int64_t missed_words = 0;
  const PredictionTotals totals = predict_pages(
      session, bundle.definition(), dataset, loader,
      [&](const PagePrediction& page) {
        gold.clear();
        predicted.clear();
        std::span<const MissedWord> missed = dataset.missed_words(page.page);
        missed_words += static_cast<std::int64_t>(missed.size());
        const auto miss_until = [&](std::size_t word) {
          for (; !missed.empty() && missed.front().word < word; missed = missed.subspan(1)) {
            gold.push_back(missed.front().label);
            predicted.push_back(kNoPrediction);
          }
        };
        for (std::size_t w = 0; w < page.labels.size(); ++w) {
          if (page.gold[w] == kIgnoredLabel) continue;
          miss_until(w);
          gold.push_back(page.gold[w]);
          predicted.push_back(page.labels[w]);
        }
        miss_until(std::numeric_limits<std::size_t>::max());
        metrics.add_page(gold, predicted);
      },
      control);
  Evaluation result{.overall = metrics.overall(), .per_label = metrics.per_type()};
  if (totals.labelled_tokens > 0) result.loss = totals.loss_sum / static_cast<double>(totals.labelled_tokens);
  result.pages = totals.pages;
  result.missed_words = missed_words;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.interrupted = totals.interrupted;
  return result;
}

}  // namespace

nlohmann::json to_json(const Evaluation& evaluation) {
  nlohmann::json object = scores_json(evaluation.overall);
  object["loss"] = evaluation.loss ? nlohmann::json(*evaluation.loss) : nlohmann::json();
  object["pages"] = evaluation.pages;
  object["missed_words"] = evaluation.missed_words;
  object["seconds"] = evaluation.seconds;
  object["per_label"] = nlohmann::json::object();
  for (const auto& [type, scores] : evaluation.per_label) object["per_label"][type] = scores_json(scores);
  return object;
}

}  // namespace plimsoll
