#include "tasks/sequence_classification/task.h"

#include "base/counted.h"
#include "tasks/parts/fields.h"
#include "tasks/sequence_classification/classes.h"
#include "tasks/sequence_classification/head.h"
#include "tasks/sequence_classification/targets.h"

namespace plimsoll {
namespace {

class SequenceClassification final : public Task {
 public:
  std::string_view name() const override { return "sequence-classification"; }
  std::string_view architecture() const override { return "SequenceClassification"; }
  std::string_view adapter_type() const override { return "SEQ_CLS"; }

  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return sequence_classification(std::move(encoder), config);
  }

  const TargetReader* reader() const override { return &page_label_reader(); }
  bool takes_texts() const override { return true; }
  bool has_classes(const TaskConfig& config) const override {
    return class_problem(config) == ClassProblem::kSingleLabel;
  }
  std::optional<Problem> refused_labels(const TaskConfig& config) const override {
    if (config.problem_type.empty() || class_problem(config) != ClassProblem::kRegression || config.num_labels() == 1) {
      return std::nullopt;
    }
    return Problem{.what = "the label of a page is a number here, for which a model has one output",
                   .where = "--labels",
                   .found = counted(config.num_labels(), "label"),
                   .allowed = "one label, or none, for regression",
                   .remedy =
                       "omit --labels; or, if the numbers are classes, pass --problem-type "
                       "single_label_classification"};
  }
  void infer(TaskConfig& config) const override {
    if (config.problem_type.empty() && config.num_labels() == 1) {
      config.problem_type = class_problem_name(ClassProblem::kRegression);
    }
  }
  SeenTargets seen_in(const PageSource& pages, const TaskConfig& config) const override {
    return page_labels_in(pages, config);
  }
  std::optional<Problem> find_unknown_label(const PageSource& pages, const LabelSet& labels) const override {
    std::optional<Problem> problem;
    read_as_far_as_possible(pages, [&](const Page& page) {
      const PageLabel* const label = label_of(page);
      if (label == nullptr) return;
      for (const std::string& name : label->names()) {
        if (!problem && !labels.find(name)) problem = unknown_class_problem(page, name, labels);
      }
    });
    return problem;
  }
  std::shared_ptr<const Targets> targets(const TaskConfig& config, bool with_targets) const override {
    return with_targets ? page_label_targets(config) : nullptr;
  }

  std::vector<std::string> metrics(const TaskConfig& config) const override {
    if (class_problem(config) == ClassProblem::kRegression) return {"mse", "mae"};
    return {"accuracy", "f1_macro", "f1_micro"};
  }
  std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset&) const override {
    return class_scorer(config);
  }
  std::size_t prediction_bytes(const PageSize& page, const TaskConfig& config,
                               const PredictionOptions& options) const override {
    constexpr std::size_t kScore = 300;  // with its label's name
    return page.words * kPageJsonBytesPerWord + (options.all_scores ? config.labels.size() * kScore : 0);
  }
  std::unique_ptr<Predictions> predictions(const TaskConfig& config, const PredictionOptions& options) const override {
    return class_predictions(config, options);
  }
};

}  // namespace

const Task& sequence_classification_task() {
  static const SequenceClassification task;
  return task;
}

}  // namespace plimsoll
