#include "train/evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/nearest.h"

namespace plimsoll {
namespace {

constexpr const char* kLoss = "loss";

Evaluation evaluate_once(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                         const LoaderOptions& loader, const PredictControl& control, std::size_t worst);

}  // namespace

Scores::Metric Evaluation::metric(const std::string& name) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (name == kLoss) return {.name = name, .value = loss.value_or(kNone), .smaller_is_better = true};
  const auto found = std::ranges::find(scores.metrics, name, &Scores::Metric::name);
  return found != scores.metrics.end() ? *found : Scores::Metric{.name = name, .value = kNone};
}

std::string metric_name(const ModelBundle& bundle, const std::string& given) {
  constexpr std::string_view kPrefix = "eval_";
  const std::vector<std::string> names = bundle.task().deciding_metrics(bundle.config.task);
  if (given.empty()) return names.front();
  const std::string name = given.starts_with(kPrefix) ? given.substr(kPrefix.size()) : given;
  if (std::ranges::find(names, name) != names.end()) return name;
  const std::string near = nearest(name, names);
  throw UsageError({.what = "no such metric",
                    .where = "--metric-for-best-model",
                    .found = given,
                    .allowed = fmt::format("{} ({})", fmt::join(names, ", "), bundle.task().name()),
                    .remedy = near.empty() ? "choose one of these" : fmt::format("did you mean {}?", near)});
}

Evaluation evaluate(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                    const LoaderOptions& loader, const PredictControl& control, std::size_t worst) {
  PredictControl now{.skipped = control.skipped, .interrupt = control.interrupt};
  for (int bad_in_a_row = 0;;) {
    try {
      return evaluate_once(session, bundle, dataset, loader, now, worst);
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
                         const LoaderOptions& loader, const PredictControl& control, std::size_t worst) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Scorer> scorer = bundle.task().scorer(bundle.config.task, dataset);
  std::vector<PageLoss> kept;
  const auto keep = [&](std::uint32_t page) {
    if (worst == 0) return;
    const PageLoss of_page{.page = page, .loss = scorer->page_loss()};
    kept.insert(std::ranges::upper_bound(kept, of_page.loss, std::greater(), &PageLoss::loss), of_page);
    if (kept.size() > worst) kept.pop_back();
  };
  const PredictionTotals totals = predict_pages(session, bundle.definition(), dataset, loader, *scorer, control, keep);
  Evaluation result{.scores = scorer->scores(), .worst = std::move(kept)};
  if (totals.loss_weight > 0) result.loss = totals.loss_sum / totals.loss_weight;
  result.pages = totals.pages;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.interrupted = totals.interrupted;
  return result;
}

}  // namespace

nlohmann::json to_json(const Evaluation& evaluation) {
  const Scores& scores = evaluation.scores;
  nlohmann::json object = {
      {"support", scores.support},     {"loss", evaluation.loss ? nlohmann::json(*evaluation.loss) : nlohmann::json()},
      {"pages", evaluation.pages},     {"missed_words", scores.missed_words},
      {"seconds", evaluation.seconds}, {"per_label", nlohmann::json::object()}};
  for (const Scores::Metric& metric : scores.metrics) object[metric.name] = metric.value;
  for (const Scores::Label& label : scores.labels) {
    object["per_label"][label.name] = {
        {"f1", label.f1}, {"precision", label.precision}, {"recall", label.recall}, {"support", label.support}};
  }
  if (scores.calibration_error) object["calibration_error"] = *scores.calibration_error;
  if (!scores.confusion.names.empty()) {
    nlohmann::json rows = nlohmann::json::array();
    const std::size_t size = scores.confusion.names.size();
    for (std::size_t gold = 0; gold < size; ++gold) {
      const auto first = scores.confusion.counts.begin() + static_cast<std::ptrdiff_t>(gold * size);
      rows.push_back(std::vector<std::uint64_t>(first, first + static_cast<std::ptrdiff_t>(size)));
    }
    object["confusion"] = {{"labels", scores.confusion.names}, {"counts", std::move(rows)}};
  }
  return object;
}

}  // namespace plimsoll
