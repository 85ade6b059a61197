#include <algorithm>
#include <bit>
#include <cmath>

#include "tasks/parts/judgement.h"
#include "tasks/sequence_classification/classes.h"

namespace plimsoll {
namespace {

// Accuracy counts the pages whose classes are all right. Macro F1 is the mean over the classes that occur in data or
// predictions; micro F1 is computed from all classes' counts together (scikit-learn, f1_score).
class ClassScorer final : public Scorer {
 public:
  explicit ClassScorer(const TaskConfig& config)
      : names_(config.labels), problem_(class_problem(config)), counts_(names_.size()), confusion_(names_) {}

  void begin_page(std::uint32_t) override {
    logits_.begin_page();
    gold_.clear();
  }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    const TensorView labels = batch.tensor(input::kLabels);
    const std::int64_t each = labels.elements() / batch.shape().max_samples;
    gold_.clear();
    for (std::int64_t i = sample * each; i < (sample + 1) * each; ++i) {
      gold_.push_back(labels.dtype() == DType::kI32 ? labels.data<std::int32_t>()[i]
                                                    : static_cast<double>(labels.data<float>()[i]));
    }
    return logits_.add_window(logits, sample);
  }
  void end_page() override;
  Scores scores() const override;
  double page_loss() const override { return page_loss_; }

 private:
  void judge(const std::vector<double>& logits, const std::vector<std::int32_t>& predicted);

  std::vector<std::string> names_;
  ClassProblem problem_;
  LogitMean logits_;
  std::vector<double> gold_;  // of the page, as the batch has it
  std::vector<LabelCounts> counts_;
  ConfusionCounts confusion_;  // of pages that have one label
  CalibrationError calibration_;
  double page_loss_ = 0;
  std::uint64_t pages_ = 0, right_ = 0;
  double squares_ = 0, distances_ = 0;  // of numbers
};

void ClassScorer::end_page() {
  const std::vector<double> logits = logits_.mean();
  ++pages_;
  if (problem_ == ClassProblem::kRegression) {
    const double error = logits.front() - gold_.front();
    squares_ += error * error;
    distances_ += std::abs(error);
    page_loss_ = error * error;
    return;
  }
  const std::vector<std::int32_t> predicted = predicted_classes(logits, problem_);
  bool all_right = true;
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    const bool is_gold =
        problem_ == ClassProblem::kSingleLabel ? gold_.front() == static_cast<double>(c) : gold_[c] > 0.5;
    const bool is_predicted = std::ranges::find(predicted, static_cast<std::int32_t>(c)) != predicted.end();
    counts_[c].gold += is_gold ? 1U : 0U;
    counts_[c].predicted += is_predicted ? 1U : 0U;
    counts_[c].right += is_gold && is_predicted ? 1U : 0U;
    all_right = all_right && is_gold == is_predicted;
  }
  right_ += all_right ? 1U : 0U;
  judge(logits, predicted);
}

void ClassScorer::judge(const std::vector<double>& logits, const std::vector<std::int32_t>& predicted) {
  const std::vector<double> probabilities = class_probabilities(logits, problem_);
  // The loss of a probability that rounds to 0 would be infinite.
  const auto loss = [](double probability) { return -std::log(std::max(probability, 1e-300)); };
  if (problem_ == ClassProblem::kSingleLabel) {
    const auto wanted = static_cast<std::size_t>(gold_.front());
    const auto found = static_cast<std::size_t>(predicted.front());
    confusion_.add(wanted, found);
    calibration_.add(probabilities[found], found == wanted);
    page_loss_ = loss(probabilities[wanted]);
    return;
  }
  page_loss_ = 0;
  for (std::size_t c = 0; c < probabilities.size(); ++c) {
    const bool is_gold = gold_[c] > 0.5, is_predicted = probabilities[c] >= 0.5;
    calibration_.add(std::max(probabilities[c], 1 - probabilities[c]), is_gold == is_predicted);
    page_loss_ += loss(is_gold ? probabilities[c] : 1 - probabilities[c]) / static_cast<double>(probabilities.size());
  }
}

Scores ClassScorer::scores() const {
  const double pages = static_cast<double>(std::max<std::uint64_t>(pages_, 1));
  if (problem_ == ClassProblem::kRegression) {
    return {.metrics = {{.name = "mse", .value = squares_ / pages, .smaller_is_better = true},
                        {.name = "mae", .value = distances_ / pages, .smaller_is_better = true}},
            .support = pages_,
            .first = {squares_, static_cast<double>(pages_)}};
  }
  Scores scores;
  LabelCounts all;
  double f1 = 0;
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    all.gold += counts_[c].gold;
    all.predicted += counts_[c].predicted;
    all.right += counts_[c].right;
    if (counts_[c].gold + counts_[c].predicted == 0) continue;
    scores.labels.push_back(counts_[c].score(names_[c]));
    f1 += scores.labels.back().f1;
  }
  scores.support = pages_;
  scores.first = {static_cast<double>(right_), static_cast<double>(pages_)};
  if (problem_ == ClassProblem::kSingleLabel) scores.confusion = confusion_.matrix();
  scores.calibration_error = calibration_.value();
  const double macro = scores.labels.empty() ? 0 : f1 / static_cast<double>(scores.labels.size());
  scores.metrics = {{.name = "accuracy", .value = static_cast<double>(right_) / pages},
                    {.name = "f1_macro", .value = macro},
                    {.name = "f1_micro", .value = all.score("").f1}};
  return scores;
}

}  // namespace

std::unique_ptr<Scorer> class_scorer(const TaskConfig& config) { return std::make_unique<ClassScorer>(config); }

}  // namespace plimsoll
