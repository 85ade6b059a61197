#include "tasks/token_classification/task.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tasks/parts/judgement.h"
#include "tasks/parts/other_task.h"
#include "tasks/token_classification/head.h"
#include "tasks/token_classification/metrics.h"
#include "tasks/token_classification/output.h"
#include "tasks/token_classification/words.h"

namespace plimsoll {
namespace {

Scores::Label label_scores(const std::string& name, const EntityScores& scores) {
  return {
      .name = name, .precision = scores.precision, .recall = scores.recall, .f1 = scores.f1, .support = scores.support};
}

// A word without a prediction (no tokens, or cut off) is a missed word: its label counts, and its prediction is
// kNoPrediction.
class EntityScorer final : public Scorer {
 public:
  EntityScorer(const TaskConfig& config, const Dataset& data)
      : data_(data), metrics_(config.labels), types_(config.labels), confusion_(types_.names) {}

  void begin_page(std::uint32_t page) override { words_.begin_page(page); }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    return words_.add_window(batch, sample, logits);
  }
  void end_page() override;
  Scores scores() const override;
  double page_loss() const override {
    const WordPredictions& page = words_.page();
    return page.loss_terms == 0 ? 0 : page.loss / static_cast<double>(page.loss_terms);
  }

 private:
  // The type of each label, whatever its tag: number 0 is outside of every entity.
  struct Types {
    std::vector<std::string> names{"O"};
    std::vector<std::size_t> of_label;

    explicit Types(const std::vector<std::string>& labels) {
      const LabelScheme scheme = label_scheme(labels);
      for (const std::string& label : labels) {
        const LabelParts parts = split_label(label, scheme);
        const std::string type(parts.tag == 'O' ? "O" : parts.type);
        const auto found = std::ranges::find(names, type);
        of_label.push_back(static_cast<std::size_t>(found - names.begin()));
        if (found == names.end()) names.push_back(type);
      }
    }
    std::size_t operator()(std::int32_t label) const {
      return label < 0 ? 0 : of_label[static_cast<std::size_t>(label)];
    }
  };

  void miss_until(std::size_t word);

  const Dataset& data_;
  EntityMetrics metrics_;
  Types types_;
  ConfusionCounts confusion_;  // of words
  CalibrationError calibration_;
  WordMerger words_;
  std::vector<std::int32_t> gold_, predicted_;  // of the page
  std::span<const MissedWord> missed_;          // of the page, those that are still to come
  std::int64_t missed_words_ = 0;
};

void EntityScorer::miss_until(std::size_t word) {
  for (; !missed_.empty() && missed_.front().word < word; missed_ = missed_.subspan(1)) {
    gold_.push_back(missed_.front().label);
    predicted_.push_back(kNoPrediction);
  }
}

void EntityScorer::end_page() {
  const WordPredictions& page = words_.page();
  gold_.clear();
  predicted_.clear();
  missed_ = data_.missed_words(page.page);
  missed_words_ += std::ssize(missed_);
  for (std::size_t w = 0; w < page.labels.size(); ++w) {
    if (page.gold[w] == kIgnoredLabel) continue;
    miss_until(w);
    gold_.push_back(page.gold[w]);
    predicted_.push_back(page.labels[w]);
    calibration_.add(page.probabilities[w], page.labels[w] == page.gold[w]);
  }
  miss_until(std::numeric_limits<std::size_t>::max());
  metrics_.add_page(gold_, predicted_);
  for (std::size_t w = 0; w < gold_.size(); ++w) confusion_.add(types_(gold_[w]), types_(predicted_[w]));
}

Scores EntityScorer::scores() const {
  const EntityScores all = metrics_.overall();
  Scores scores{.metrics = {{"f1", all.f1}, {"precision", all.precision}, {"recall", all.recall}},
                .support = all.support,
                .all = label_scores("all", all),
                .confusion = confusion_.matrix(),
                .calibration_error = calibration_.value(),
                .first = {2 * static_cast<double>(all.correct), static_cast<double>(all.support + all.predicted)},
                .missed_words = missed_words_};
  for (const auto& [type, of_type] : metrics_.per_type()) scores.labels.push_back(label_scores(type, of_type));
  return scores;
}

class TokenClassification final : public Task {
 public:
  std::string_view name() const override { return "token-classification"; }
  std::string_view architecture() const override { return "TokenClassification"; }
  std::string_view adapter_type() const override { return "TOKEN_CLS"; }

  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return token_classification(std::move(encoder), config.num_labels(), config.loss);
  }

  bool has_classes(const TaskConfig&) const override { return true; }
  bool labels_words() const override { return true; }
  std::vector<std::string_view> keys() const override { return {"labels", "ner_tags"}; }
  SeenTargets seen_in(const PageSource& pages, const TaskConfig& config) const override {
    SeenTargets seen{.config = config};
    try {
      seen.config.labels = LabelSet::from_pages(pages).names();
    } catch (const PageError&) {
      throw;
    } catch (const DataError& error) {
      Problem problem = error.problem();
      if (pages.size() > 0) problem.remedy = remedy_with_task(pages.read(0), std::move(problem.remedy));
      throw DataError(std::move(problem));
    }
    return seen;
  }
  std::optional<Problem> find_unknown_label(const PageSource& pages, const LabelSet& labels) const override {
    std::optional<Problem> problem;
    read_as_far_as_possible(pages, [&](const Page& page) {
      for (std::size_t word = 0; !problem && word < page.labels.size(); ++word) {
        const std::string& label = page.labels[word];
        if (!label.empty() && !labels.find(label)) problem = unknown_label_problem(page, word, labels);
      }
    });
    return problem;
  }

  std::vector<std::string> metrics(const TaskConfig&) const override { return {"f1", "precision", "recall"}; }
  std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset& data) const override {
    return std::make_unique<EntityScorer>(config, data);
  }
  std::size_t scoring_bytes(const PageSize& page) const override { return page.words * 24; }
  // A word that is a field by itself, with its box and scores.
  std::size_t prediction_bytes(const PageSize& page, const TaskConfig& config,
                               const PredictionOptions& options) const override {
    return page.words * (1800 + (options.all_scores ? config.labels.size() * 120 : 0));
  }
  std::unique_ptr<Predictions> predictions(const TaskConfig& config, const PredictionOptions& options) const override {
    return word_predictions(config, options);
  }
};

}  // namespace

const Task& token_classification_task() {
  static const TokenClassification task;
  return task;
}

}  // namespace plimsoll
