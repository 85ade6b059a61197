// Task: what a model is trained for. Its head, what it reads of pages and trains them towards, how the windows of a
// page become one result, how results are scored and written. A folder a task; README.md says how to add one.
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
  // Begins a page, and forgets what was added of one that was not ended.
  virtual void begin_page(std::uint32_t page) = 0;
  // `logits`: of the whole batch, as the head gives them. False: those of this sample are not finite.
  [[nodiscard]] virtual bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) = 0;
  // All windows of the page have been added.
  virtual void end_page() = 0;
};

// Compares predictions with the data's targets.
class Scorer : public WindowReader {
 public:
  virtual Scores scores() const = 0;
  // The mean loss of the page that was ended last, by which pages are compared; 0 where it has no target.
  virtual double page_loss() const = 0;
};

// The predictions of the page that was ended last.
class Predictions : public WindowReader {
 public:
  // The page's line of `predict`'s output, as docs/predictions.md describes it.
  virtual nlohmann::json to_json(const Page& page) const = 0;
  // The page with what was found on it; image, boxes and size of `page` are known.
  virtual AnnotatedPage drawing(const Page& page, BoxFormat format) const = 0;
  // Words of the page that have no prediction though the task predicts one for each.
  virtual std::int64_t unpredicted_words(const Page&) const { return 0; }
};

// What a data set's targets are, and what should be said of how they were taken.
struct SeenTargets {
  TaskConfig config;  // with labels and problem type
  Findings findings{};
};

struct PredictionOptions {
  bool all_scores = false;  // of every label, not of the predicted one alone
};

class Task {
 public:
  virtual ~Task() = default;
  // As pipelines are named, "token-classification"; as `architectures` ends, "TokenClassification"; PEFT's `task_type`,
  // "TOKEN_CLS"; what is trained, for messages: "labels of words".
  virtual std::string_view name() const = 0;
  virtual std::string_view architecture() const = 0;
  virtual std::string_view adapter_type() const = 0;

  virtual ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const = 0;

  // The same parameters, with logits of what comes after each sample's last row; nullopt for a task that writes no
  // text.
  virtual std::optional<ModelDefinition> next_token_model(std::shared_ptr<const Encoder>) const { return std::nullopt; }

  // Labels of a new head while nobody has named any; `transformers` builds as many outputs.
  virtual std::vector<std::string> unnamed_labels() const { return {"LABEL_0"}; }
  // Why there is no head of these labels; nullopt: there is.
  virtual std::optional<Problem> refused_labels(const TaskConfig&) const { return std::nullopt; }
  // Whether its loss is a cross-entropy over classes, so that LossOptions mean something.
  virtual bool has_classes(const TaskConfig&) const { return false; }
  // Whether `labels` of words are what it reads of pages; otherwise `reader` reads its own keys.
  virtual bool labels_words() const { return false; }
  virtual const TargetReader* reader() const { return nullptr; }
  // Returns true if its examples are running texts, which the reader reads in place of a page's words.
  bool reads_text() const { return reader() != nullptr && reader()->reads_text(); }
  // Returns true if a page may be one running text where the model sees neither boxes nor image, because the task says
  // nothing of its words.
  virtual bool takes_texts() const { return false; }
  // The keys by which a page is seen to have its targets.
  virtual std::vector<std::string_view> keys() const { return {reader()->key()}; }
  // What the data's targets are, as far as its pages can be read. If no page has a target, throws the first fault, or
  // DataError where there is none.
  virtual SeenTargets seen_in(const PageSource& pages, const TaskConfig& config) const = 0;
  // The first page whose target has a name that the labels lack, as a problem; what cannot be read is passed over.
  virtual std::optional<Problem> find_unknown_label(const PageSource& pages, const LabelSet& labels) const = 0;
  // `with_targets`: false for prediction, where pages have none. nullptr where labels of words are all the targets, or
  // where prediction needs nothing of the page beside its words.
  virtual std::shared_ptr<const Targets> targets(const TaskConfig&, bool /*with_targets*/) const { return nullptr; }
  // Whether its examples are pairs of pages (data/pairs.h). `pair_targets` is then what they are trained towards, and
  // `group_of` the name of a page's group, as far as the task heeds it.
  virtual bool reads_pairs() const { return false; }
  virtual std::shared_ptr<const PairTargets> pair_targets(const TaskConfig&) const { return nullptr; }
  virtual std::string group_of(const Page&) const { return {}; }
  // What `reader` reads of pages, as counts of it name one: "labelled page", "question".
  virtual std::string_view target_name() const { return "labelled page"; }
  // Whether prediction reads the task's keys of a page too.
  virtual bool asks() const { return false; }

  // Names of what `scorer` gives, in its order.
  virtual std::vector<std::string> metrics(const TaskConfig& config) const = 0;
  virtual std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset& data) const = 0;
  virtual std::unique_ptr<Predictions> predictions(const TaskConfig& config,
                                                   const PredictionOptions& options) const = 0;
};

}  // namespace plimsoll
