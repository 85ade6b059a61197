// How good the final model is at each label, and which labels it confuses.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "report/views.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMatrixNames = 24;  // a larger matrix is listed by its most frequent entries
constexpr std::size_t kListed = 30;

std::string share_text(double share) { return fmt::format("{:.3f}", std::clamp(share, 0.0, 1.0)); }

// A row per label of any run, a cell per run.
Json scores_of(const std::vector<RunFacts>& runs, const ViewLimits& limits) {
  std::vector<std::string> names;
  std::map<std::string, std::uint64_t> support;
  std::vector<std::map<std::string, LabelScore>> by_run(runs.size());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Evaluation* const evaluation = final_evaluation(runs[r]);
    if (evaluation == nullptr) continue;
    for (const LabelScore& label : evaluation->labels) {
      if (std::ranges::find(names, label.name) == names.end()) names.push_back(label.name);
      support[label.name] = std::max(support[label.name], label.support);
      by_run[r].emplace(label.name, label);
    }
  }
  if (names.empty()) return {};
  Json rows = Json::array();
  for (const std::string& name : names) {
    Json cells = Json::array();
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto found = by_run[r].find(name);
      if (found == by_run[r].end()) {
        cells.push_back({{"key", run_key(r)}, {"share", "0"}, {"f1", "–"}, {"precision", "–"}, {"recall", "–"}});
        continue;
      }
      const LabelScore& label = found->second;
      cells.push_back({{"key", run_key(r)},
                       {"share", share_text(label.f1)},
                       {"f1", fmt::format("{:.3f}", label.f1)},
                       {"precision", fmt::format("{:.3f}", label.precision)},
                       {"recall", fmt::format("{:.3f}", label.recall)}});
    }
    rows.push_back({{"name", cut_text(name, limits.texts)}, {"cells", std::move(cells)}, {"support", support[name]}});
  }
  return {{"rows", std::move(rows)}};
}

Json matrix_of(const Evaluation& evaluation, const ViewLimits& limits) {
  Json names = Json::array(), rows = Json::array();
  for (const std::string& name : evaluation.confusion_names) names.push_back(cut_text(name, limits.texts));
  for (std::size_t given = 0; given < evaluation.confusion.size(); ++given) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : evaluation.confusion[given]) sum += count;
    Json cells = Json::array();
    for (std::size_t predicted = 0; predicted < evaluation.confusion[given].size(); ++predicted) {
      const std::uint64_t count = evaluation.confusion[given][predicted];
      const double share = sum > 0 ? static_cast<double>(count) / static_cast<double>(sum) : 0;
      // A few mistakes among many must be visible, so a cell that is not empty has some colour.
      cells.push_back({{"count", count},
                       {"class", count == 0           ? "none"
                                 : given == predicted ? "on"
                                                      : "off"},
                       {"share", share_text(count == 0 ? 0 : std::max(share, 0.12))}});
    }
    rows.push_back({{"name", names[given]}, {"cells", std::move(cells)}});
  }
  return {{"names", std::move(names)}, {"rows", std::move(rows)}};
}

// Returns which labels are most often confused.
Json most_of(const Evaluation& evaluation, const ViewLimits& limits) {
  struct Entry {
    std::uint64_t count;
    std::size_t given, predicted;
  };
  std::vector<Entry> entries;
  for (std::size_t given = 0; given < evaluation.confusion.size(); ++given) {
    for (std::size_t predicted = 0; predicted < evaluation.confusion[given].size(); ++predicted) {
      const std::uint64_t count = evaluation.confusion[given][predicted];
      if (given != predicted && count > 0) entries.push_back({count, given, predicted});
    }
  }
  std::ranges::stable_sort(entries, std::greater(), &Entry::count);
  if (entries.size() > kListed) entries.resize(kListed);
  Json rows = Json::array();
  for (const Entry& entry : entries) {
    rows.push_back({cut_text(evaluation.confusion_names[entry.given], limits.texts),
                    cut_text(evaluation.confusion_names[entry.predicted], limits.texts), entry.count});
  }
  return {{"rows", std::move(rows)}};
}

}  // namespace

Json labels_view(const std::vector<RunFacts>& runs, const ViewLimits& limits) {
  const std::vector<std::string> names = run_names(runs);
  Json scores = scores_of(runs, limits);
  Json confusions = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Evaluation* const evaluation = final_evaluation(runs[r]);
    if (evaluation == nullptr || evaluation->confusion.empty()) continue;
    const bool fits = evaluation->confusion.size() <= kMatrixNames;
    confusions.push_back(
        {{"run", names[r]},
         {"key", run_key(r)},
         {"caption", fits
                         ? "Rows are what was given, columns what was predicted; colours are shares of a row."
                         : fmt::format("{} are too many for a table.", counted(evaluation->confusion.size(), "label"))},
         {"matrix", fits ? matrix_of(*evaluation, limits) : Json()},
         {"most", fits ? Json() : most_of(*evaluation, limits)}});
  }
  if (scores.is_null() && confusions.empty()) return {};
  return {{"scores", std::move(scores)}, {"confusions", std::move(confusions)}};
}

}  // namespace plimsoll::report
