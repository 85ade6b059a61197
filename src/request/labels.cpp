#include "request/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"

namespace plimsoll {
namespace {

// Returns whether the model has learnt labels, rather than been given some for a new head.
bool has_labels(const ModelBundle& bundle) { return bundle.weights != nullptr && !bundle.fresh_task; }

bool covers(const std::vector<std::string>& labels, const LabelSet& data) {
  return std::ranges::all_of(data.names(),
                             [&](const std::string& name) { return std::ranges::find(labels, name) != labels.end(); });
}

// If the model knows only some of the labels, that is more often a mistake in the data than a wish for a new head,
// which would throw away what the model has learnt. If it knows none of the entities, it gets a new head.
void refuse_stray_labels(const Task& task, const std::vector<std::string>& known, const LabelSet& seen,
                         const PageSource& source) {
  const auto knows = [&known](const std::string& name) { return std::ranges::find(known, name) != known.end(); };
  const bool shares =
      std::ranges::any_of(seen.names(), [&](const std::string& name) { return name != "O" && knows(name); });
  if (!shares) return;
  if (std::optional<Problem> problem = task.find_unknown_label(source, LabelSet(known, "the model's labels"))) {
    problem->remedy = fmt::format("correct the label; or, for a new head, pass all labels: --labels {}",
                                  fmt::join(seen.names(), ","));
    throw PageError("label-unknown", std::move(*problem));
  }
}

}  // namespace

void set_task_and_labels(ModelBundle& bundle, const ModelRequest& model) {
  set_task(bundle, model.task, model.problem_type);
  bundle.config.task.loss = model.loss;
  check_loss(bundle);
  check_class_weights(bundle, model.class_weights);
  if (!model.labels.empty()) set_typed_labels(bundle, model.labels);
}

ReadOptions labelled_reading(const ModelBundle& bundle, const ModelRequest& model, const DataRequest& data) {
  ReadOptions reading = read_options(bundle, data, true);
  if (model.labels.empty() && !has_labels(bundle)) reading.label_names.clear();
  return reading;
}

namespace {

Findings find_labels(ModelBundle& bundle, const ModelRequest& model, const PageSource& pages) {
  const Task& task = bundle.task();
  // Given labels of words need no look at the data; classes of pages also need a problem type.
  if (!model.labels.empty() && (task.labels_words() || !bundle.config.task.problem_type.empty())) return Findings();
  SeenTargets found = task.seen_in(pages, bundle.config.task);
  bundle.config.task.problem_type = found.config.problem_type;
  bundle.config.task.link_labels = found.config.link_labels;
  if (!model.labels.empty()) return std::move(found.findings);
  const LabelSet seen(found.config.labels, "labels of the data");
  if (has_labels(bundle) && covers(bundle.config.task.labels, seen)) return std::move(found.findings);
  // Numbers have no names, so a head that predicts as many of them fits, whatever its labels are called.
  const std::vector<std::string>& own = bundle.config.task.labels;
  if (has_labels(bundle) && !task.has_classes(found.config) && found.config.labels == task.unnamed_labels() &&
      own.size() == found.config.labels.size()) {
    return std::move(found.findings);
  }
  // `seen` has the whole of a scheme, also the I- of a type whose fields all have one word, which a model may lack.
  if (has_labels(bundle) && task.labels_words() &&
      !task.find_unknown_label(pages, LabelSet(bundle.config.task.labels, "the model's labels"))) {
    return std::move(found.findings);
  }
  if (has_labels(bundle)) refuse_stray_labels(task, bundle.config.task.labels, seen, pages);
  set_labels(bundle, seen);
  return std::move(found.findings);
}

}  // namespace

Findings resolve_labels(ModelBundle& bundle, const ModelRequest& model, const PageSource& pages) {
  Findings findings = find_labels(bundle, model, pages);
  check_head(bundle);
  return findings;
}

}  // namespace plimsoll
