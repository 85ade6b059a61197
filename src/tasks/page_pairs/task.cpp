#include "tasks/page_pairs/task.h"

#include "base/counted.h"
#include "tasks/page_pairs/head.h"
#include "tasks/page_pairs/results.h"
#include "tasks/page_pairs/targets.h"

namespace plimsoll {
namespace {

class PairTask : public Task {
 public:
  std::string_view adapter_type() const override { return "FEATURE_EXTRACTION"; }
  std::vector<std::string_view> keys() const override { return {"a", "b"}; }
  std::string_view target_name() const override { return "pair"; }
  bool reads_pairs() const override { return true; }
  bool takes_texts() const override { return true; }
  // Labels are those of the command line or of the model; the pairs contain only their numbers.
  SeenTargets seen_in(const PageSource&, const TaskConfig& config) const override {
    SeenTargets seen{.config = config};
    if (seen.config.labels.empty()) seen.config.labels = unnamed_labels();
    return seen;
  }
  std::optional<Problem> find_unknown_label(const PageSource&, const LabelSet&) const override { return std::nullopt; }
};

// A task whose pairs have no classes.
class UnlabelledPairTask : public PairTask {
 public:
  std::optional<Problem> refused_labels(const TaskConfig& config) const override {
    if (config.num_labels() <= 1) return std::nullopt;
    return Problem{.what = "the task has no labels",
                   .where = "--labels",
                   .found = counted(config.num_labels(), "label"),
                   .allowed = "no --labels with --task " + std::string(name()),
                   .remedy = "omit --labels, or pass --task pair-classification"};
  }
};

class PairClassification final : public PairTask {
 public:
  std::string_view name() const override { return "pair-classification"; }
  std::string_view architecture() const override { return "PairClassification"; }
  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return pair_classification(std::move(encoder), config);
  }
  std::vector<std::string> unnamed_labels() const override { return {"0", "1"}; }
  bool has_classes(const TaskConfig&) const override { return true; }
  std::shared_ptr<const PairTargets> pair_targets(const TaskConfig& config) const override {
    return class_pair_targets(config);
  }
  std::vector<std::string> metrics(const TaskConfig&) const override { return {"accuracy", "f1"}; }
  std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset&) const override {
    return pair_class_scorer(config);
  }
  std::unique_ptr<Predictions> predictions(const TaskConfig& config, const PredictionOptions& options) const override {
    return pair_class_predictions(config, options);
  }
};

class PairRanking final : public UnlabelledPairTask {
 public:
  std::string_view name() const override { return "pair-ranking"; }
  std::string_view architecture() const override { return "PairRanking"; }
  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return pair_ranking(std::move(encoder), config);
  }
  std::shared_ptr<const PairTargets> pair_targets(const TaskConfig&) const override { return preference_targets(); }
  std::vector<std::string> metrics(const TaskConfig&) const override { return {"accuracy", "margin"}; }
  std::unique_ptr<Scorer> scorer(const TaskConfig&, const Dataset&) const override { return preference_scorer(); }
  std::unique_ptr<Predictions> predictions(const TaskConfig&, const PredictionOptions&) const override {
    return preference_predictions();
  }
};

class PairSimilarity final : public UnlabelledPairTask {
 public:
  std::string_view name() const override { return "pair-similarity"; }
  std::string_view architecture() const override { return "PairSimilarity"; }
  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return pair_similarity(std::move(encoder), config);
  }
  const TargetReader* reader() const override { return &page_group_reader(); }
  std::string group_of(const Page& page) const override { return group_of_page(page); }
  std::shared_ptr<const PairTargets> pair_targets(const TaskConfig&) const override { return similarity_targets(); }
  std::vector<std::string> metrics(const TaskConfig&) const override {
    return {"recall_at_1", "recall_at_5", "accuracy", "threshold"};
  }
  // A threshold is no measure of quality, and pages are compared with all others, not with those of an update.
  std::vector<std::string> deciding_metrics(const TaskConfig&) const override {
    return {"recall_at_1", "recall_at_5", "accuracy"};
  }
  std::unique_ptr<Scorer> scorer(const TaskConfig&, const Dataset& data) const override {
    return similarity_scorer(data);
  }
  std::unique_ptr<Predictions> predictions(const TaskConfig&, const PredictionOptions& options) const override {
    return similarity_predictions(options);
  }
};

}  // namespace

const Task& pair_classification_task() {
  static const PairClassification task;
  return task;
}

const Task& pair_ranking_task() {
  static const PairRanking task;
  return task;
}

const Task& pair_similarity_task() {
  static const PairSimilarity task;
  return task;
}

}  // namespace plimsoll
