#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "data/dataset.h"
#include "tasks/page_pairs/pair_rows.h"
#include "tasks/page_pairs/results.h"
#include "tasks/parts/judgement.h"

namespace plimsoll {
namespace {

// Scores accuracy, and F1 of the second label if there are two (scikit-learn's f1_score of label 1), else the mean over
// all labels.
class PairClassScorer final : public Scorer {
 public:
  explicit PairClassScorer(const TaskConfig& config)
      : names_(config.labels), counts_(names_.size()), confusion_(names_) {}

  void begin_page(std::uint32_t) override { gold_ = kIgnoredLabel; }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    if (!is_first_of_pair(batch, sample)) return true;
    const auto row = row_of(logits, sample);
    logits_.assign(row.begin(), row.end());
    gold_ = batch.tensor(input::kLabels).data<std::int32_t>()[sample];
    return is_finite(row);
  }
  void end_page() override {
    if (gold_ == kIgnoredLabel) return;
    const auto wanted = static_cast<std::size_t>(gold_);
    const auto found = static_cast<std::size_t>(std::ranges::max_element(logits_) - logits_.begin());
    ++pairs_;
    right_ += found == wanted ? 1U : 0U;
    ++counts_[wanted].gold;
    ++counts_[found].predicted;
    counts_[wanted].right += found == wanted ? 1U : 0U;
    confusion_.add(wanted, found);
    calibration_.add(softmax_of(logits_)[found], found == wanted);
    loss_ = cross_entropy_of(logits_, wanted);
  }
  double page_loss() const override { return loss_; }

  Scores scores() const override {
    Scores scores;
    scores.support = pairs_;
    scores.confusion = confusion_.matrix();
    scores.calibration_error = calibration_.value();
    double sum = 0;
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      if (counts_[c].gold + counts_[c].predicted == 0) continue;
      scores.labels.push_back(counts_[c].score(names_[c]));
      sum += scores.labels.back().f1;
    }
    scores.first = {static_cast<double>(right_), static_cast<double>(pairs_)};
    const double mean = scores.labels.empty() ? 0 : sum / static_cast<double>(scores.labels.size());
    scores.metrics = {{.name = "accuracy", .value = scores.first.value()},
                      {.name = "f1", .value = names_.size() == 2 ? counts_[1].score("").f1 : mean}};
    return scores;
  }

 private:
  std::vector<std::string> names_;
  std::vector<float> logits_;
  std::int32_t gold_ = kIgnoredLabel;
  std::vector<LabelCounts> counts_;
  ConfusionCounts confusion_;
  CalibrationError calibration_;
  std::uint64_t pairs_ = 0, right_ = 0;
  double loss_ = 0;
};

// Scores pairwise accuracy: how many pairs have the higher score for the better page; equal scores are wrong.
class PreferenceScorer final : public Scorer {
 public:
  void begin_page(std::uint32_t) override {}
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    if (!is_first_of_pair(batch, sample)) return true;
    const auto row = row_of(logits, sample);
    margin_ = double{row[0]} - row[1];
    return is_finite(row);
  }
  void end_page() override {
    ++pairs_;
    right_ += margin_ > 0 ? 1U : 0U;
    margins_ += margin_;
    calibration_.add(1 / (1 + std::exp(-std::abs(margin_))), margin_ > 0);
  }
  // Computes -log sigmoid(margin) without overflow for any margin.
  double page_loss() const override { return std::max(-margin_, 0.0) + std::log1p(std::exp(-std::abs(margin_))); }
  Scores scores() const override {
    const double pairs = static_cast<double>(std::max<std::uint64_t>(pairs_, 1));
    return {.metrics = {{.name = "accuracy", .value = static_cast<double>(right_) / pairs},
                        {.name = "margin", .value = margins_ / pairs}},
            .support = pairs_,
            .calibration_error = calibration_.value(),
            .first = {static_cast<double>(right_), static_cast<double>(pairs_)}};
  }

 private:
  double margin_ = 0, margins_ = 0;
  std::uint64_t pairs_ = 0, right_ = 0;
  CalibrationError calibration_;
};

// Scores recall at k: of the pages that have another page of their group in the data, how many have one among the k
// most similar of all other pages. Scores accuracy of the pairs' labels, with the best threshold for the cosine.
class SimilarityScorer final : public Scorer {
 public:
  explicit SimilarityScorer(const Dataset& data) : pairs_(*data.options().pairs) {}

  void begin_page(std::uint32_t pair) override { pair_ = pair; }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    const auto row = row_of(logits, sample);
    const bool first = is_first_of_pair(batch, sample);
    embeddings_[first ? pairs_[pair_].a : pairs_[pair_].b] = unit_of(row);
    return is_finite(row);
  }
  void end_page() override {
    const double cosine = cosine_of(embeddings_.at(pairs_[pair_].a), embeddings_.at(pairs_[pair_].b));
    const bool linked = pairs_.label(pair_) == "1";
    loss_ = linked ? 1 - cosine : std::max(cosine, 0.0);
    cosines_.emplace_back(cosine, linked);
  }
  double page_loss() const override { return loss_; }

  Scores scores() const override {
    std::uint64_t queries = 0, at_one = 0, at_five = 0;
    for (const auto& [page, embedding] : embeddings_) {
      const std::int32_t group = pairs_.group(page);
      double best = -2;  // the cosine of the most similar page of the group
      for (const auto& [other, its] : embeddings_) {
        if (other != page && pairs_.group(other) == group) best = std::max(best, cosine_of(embedding, its));
      }
      if (best < -1.5) continue;
      std::uint64_t before = 0;  // pages of other groups that are as similar
      for (const auto& [other, its] : embeddings_) {
        if (pairs_.group(other) != group && cosine_of(embedding, its) >= best) ++before;
      }
      ++queries;
      at_one += before < 1 ? 1U : 0U;
      at_five += before < 5 ? 1U : 0U;
    }
    const double all = static_cast<double>(std::max<std::uint64_t>(queries, 1));
    const auto [accuracy, threshold] = best_threshold();
    return {.metrics = {{.name = "recall_at_1", .value = static_cast<double>(at_one) / all},
                        {.name = "recall_at_5", .value = static_cast<double>(at_five) / all},
                        {.name = "accuracy", .value = accuracy},
                        {.name = "threshold", .value = threshold}},
            .support = queries,
            .first = {static_cast<double>(at_one), static_cast<double>(queries)}};
  }

 private:
  // Returns the share of pairs that are right, and the smallest cosine that counts as belonging together.
  std::pair<double, double> best_threshold() const {
    if (cosines_.empty()) return {0, 0};
    std::vector<std::pair<double, bool>> sorted = cosines_;
    std::ranges::sort(sorted, std::greater<>(), &std::pair<double, bool>::first);
    std::size_t right = 0;  // with every pair below the threshold
    for (const auto& [cosine, linked] : sorted) right += linked ? 0U : 1U;
    std::size_t most = right;
    double threshold = 1;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      sorted[i].second ? ++right : --right;
      const bool splits = i + 1 == sorted.size() || sorted[i + 1].first < sorted[i].first;
      if (!splits || right <= most) continue;
      most = right;
      threshold = sorted[i].first;
    }
    return {static_cast<double>(most) / static_cast<double>(sorted.size()), threshold};
  }

  const Pairs& pairs_;
  std::uint32_t pair_ = 0;
  std::map<std::uint32_t, std::vector<float>> embeddings_;  // of pages
  std::vector<std::pair<double, bool>> cosines_;            // of pairs, and whether they belong together
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<Scorer> pair_class_scorer(const TaskConfig& config) {
  return std::make_unique<PairClassScorer>(config);
}
std::unique_ptr<Scorer> preference_scorer() { return std::make_unique<PreferenceScorer>(); }
std::unique_ptr<Scorer> similarity_scorer(const Dataset& data) { return std::make_unique<SimilarityScorer>(data); }

}  // namespace plimsoll
