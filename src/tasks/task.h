// Task: what a model is trained for. Its head, what it reads from pages, its targets, how the windows of a page become
// one result, and how results are scored and written. Each task has a folder; README.md says how to add one.
//
//   const Task& task = task_of(config.task);                       // tasks/tasks.h
//   const ModelDefinition model = task.model(encoder, config.task);
//   const auto scorer = task.scorer(config.task, held_out);
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/annotated_page.h"
#include "data/batch.h"
#include "data/findings.h"
#include "data/labels.h"
#include "data/page_sizes.h"
#include "data/page_source.h"
#include "data/pairs.h"
#include "data/targets.h"
#include "model/definition.h"
#include "model/task_config.h"
#include "tasks/scores.h"

namespace plimsoll {

// Takes the logits of a data set, window by window in the data's order.
class WindowReader {
 public:
  virtual ~WindowReader() = default;
  // Begins a page, and forgets what was added for a page that was not ended.
  virtual void begin_page(std::uint32_t page) = 0;
  // `logits` is the head's output for the whole batch. Returns false if this sample's are not finite.
  [[nodiscard]] virtual bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) = 0;
  // Call it when all windows of the page have been added.
  virtual void end_page() = 0;
};

// Compares predictions with the data's targets.
class Scorer : public WindowReader {
 public:
  virtual Scores scores() const = 0;
  // Returns the mean loss of the page that was ended last, by which pages are compared; 0 if it has no target.
  virtual double page_loss() const = 0;
};

// The predictions of the page that was ended last.
class Predictions : public WindowReader {
 public:
  // Returns the page's line of `predict`'s output (docs/predictions.md).
  virtual nlohmann::json to_json(const Page& page) const = 0;
  // Returns the page with what was found on it; image, boxes and size of `page` must be known.
  virtual AnnotatedPage drawing(const Page& page, BoxFormat format) const = 0;
  // Returns how many words of the page have no prediction, though the task predicts one for each.
  virtual std::int64_t unpredicted_words(const Page&) const { return 0; }
};

// What a data set's targets are, and what the user should know about how they were read.
struct SeenTargets {
  TaskConfig config;  // with labels and problem type
  Findings findings{};
};

struct PredictionOptions {
  bool all_scores = false;  // scores of every label, not only of the predicted one
};

class Task {
 public:
  virtual ~Task() = default;
  // Return the pipeline's name, "token-classification"; the end of `architectures`, "TokenClassification"; PEFT's
  // `task_type`, "TOKEN_CLS"; and what is trained, for messages: "labels of words".
  virtual std::string_view name() const = 0;
  virtual std::string_view architecture() const = 0;
  virtual std::string_view adapter_type() const = 0;

  virtual ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const = 0;

  // Returns a model with the same parameters, and logits for the token after each sample's last row; nullopt for a task
  // that writes no text.
  virtual std::optional<ModelDefinition> next_token_model(std::shared_ptr<const Encoder>) const { return std::nullopt; }

  // Returns the labels of a new head if none are named; `transformers` builds equally many outputs.
  virtual std::vector<std::string> unnamed_labels() const { return {"LABEL_0"}; }
  // Returns why there cannot be a head with these labels; nullopt if there can.
  virtual std::optional<Problem> refused_labels(const TaskConfig&) const { return std::nullopt; }
  // Infers what a model's config.json leaves open, as `transformers` does.
  virtual void infer(TaskConfig&) const {}
  // Returns whether its loss is a cross-entropy over classes, so that LossOptions mean something.
  virtual bool has_classes(const TaskConfig&) const { return false; }
  // Returns whether these classes are the config's labels, so that they can have weights.
  virtual bool weighs_classes(const TaskConfig& config) const { return has_classes(config); }
  // Returns whether it reads words' `labels` from pages; otherwise `reader` reads the task's own keys.
  virtual bool labels_words() const { return false; }
  virtual const TargetReader* reader() const { return nullptr; }
  // Returns true if its examples are running texts, which the reader reads in place of a page's words.
  bool reads_text() const { return reader() != nullptr && reader()->reads_text(); }
  // Returns true if a page may be one running text when the model sees neither boxes nor image, because the task does
  // not refer to single words.
  virtual bool takes_texts() const { return false; }
  // Returns the keys by which a page is recognised to have its targets.
  virtual std::vector<std::string_view> keys() const { return {reader()->key()}; }
  // Returns the data's targets, as far as its pages can be read. If no page has a target, throws the first fault, or
  // DataError if there is none.
  virtual SeenTargets seen_in(const PageSource& pages, const TaskConfig& config) const = 0;
  // Returns the first page whose target has a name that is not among the labels, as a problem; unreadable pages are
  // skipped.
  virtual std::optional<Problem> find_unknown_label(const PageSource& pages, const LabelSet& labels) const = 0;
  // `with_targets` is false for prediction, where pages have none. Returns nullptr if words' labels are the only
  // targets, or if prediction needs only the page's words.
  virtual std::shared_ptr<const Targets> targets(const TaskConfig&, bool /*with_targets*/) const { return nullptr; }
  // Returns whether its examples are pairs of pages (data/pairs.h). If so, `pair_targets` returns their targets, and
  // `group_of` the name of a page's group, if the task uses groups.
  virtual bool reads_pairs() const { return false; }
  virtual std::shared_ptr<const PairTargets> pair_targets(const TaskConfig&) const { return nullptr; }
  virtual std::string group_of(const Page&) const { return {}; }
  // Returns the noun for one of the things that `reader` reads from pages: "labelled page", "question".
  virtual std::string_view target_name() const { return "labelled page"; }
  // Returns whether prediction reads the task's keys of a page, too.
  virtual bool asks() const { return false; }

  // Returns the names of the metrics that `scorer` gives, in its order; it omits one that the data has no value for.
  virtual std::vector<std::string> metrics(const TaskConfig& config) const = 0;
  // Returns those by which models can be compared, the usual one first: with the loss, if evaluation has one.
  virtual std::vector<std::string> deciding_metrics(const TaskConfig& config) const {
    std::vector<std::string> names = metrics(config);
    names.emplace_back("loss");
    return names;
  }
  virtual std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset& data) const = 0;
  // Return the most bytes that a scorer keeps for a page of this size, and the most that its predictions take, with
  // their JSON as values and as text. The numbers behind them are measured, and tests compare them with the resident
  // set.
  virtual std::size_t scoring_bytes(const PageSize&) const { return 0; }
  virtual std::size_t prediction_bytes(const PageSize&, const TaskConfig&, const PredictionOptions&) const { return 0; }
  virtual std::unique_ptr<Predictions> predictions(const TaskConfig& config,
                                                   const PredictionOptions& options) const = 0;
};

}  // namespace plimsoll
