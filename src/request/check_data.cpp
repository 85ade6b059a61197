#include "request/check_data.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/log.h"

namespace plimsoll {
namespace {

bool all_folders(const PageSource& source) {
  return std::ranges::all_of(source.paths(), [](const auto& path) { return std::filesystem::is_directory(path); });
}

// What `check` and a run that begins have in common. `names` give numbers in the data their meaning; `labels` (nullptr:
// any) are those that may occur.
DataCheck check_with(const ModelBundle& bundle, const CheckRequest& request, const std::vector<std::string>& names,
                     const LabelSet* labels, bool required) {
  const WordEncoder encoder = bundle.word_encoder();
  ReadOptions reading = read_options(bundle, request.data, required);
  reading.label_names = names;
  const auto open = [&](const PagePaths& path) { return open_pages(path, reading); };
  TaskConfig task = bundle.config.task;
  task.labels = names;
  const std::shared_ptr<const Targets> targets =
      labels != nullptr || bundle.task().asks() ? bundle.task().targets(task, required) : nullptr;
  const auto run = [&](const PageSource& source, bool evaluation) {
    return check_pages(source, {.parts = page_parts(bundle.facts()),
                                .box_format = request.data.box_format,
                                .labels = labels,
                                .labels_required = required,
                                .words_labelled = bundle.task().labels_words(),
                                .targets = targets,
                                .encoder = &encoder,
                                .vocab_size = bundle.facts().vocab_size,
                                .windows = window_options(request.data, bundle.facts()),
                                .segments_known = all_folders(source) && !request.data.segment_boxes,
                                .decode_images = request.decode_images,
                                .decoding_bytes = request.decoding_bytes,
                                .skipped = indices_of(request.skipped, evaluation),
                                .places_kept = request.places_kept,
                                .threads = request.threads,
                                .on_progress = request.on_progress});
  };
  const std::unique_ptr<PageSource> train = open(request.data.data);
  DataCheck result{.findings = Findings(request.places_kept), .train = run(*train, false)};
  result.findings.merge(result.train.findings);
  if (request.evaluation.empty()) return result;
  const std::unique_ptr<PageSource> evaluation = open(request.evaluation);
  result.evaluation = run(*evaluation, true);
  result.findings.merge(result.evaluation->findings);
  result.findings.merge(compare_data({*train, result.train}, {*evaluation, *result.evaluation}, request.places_kept));
  return result;
}

}  // namespace

DataCheck check_data(ModelBundle& bundle, const ModelRequest& model, const CheckRequest& request) {
  const bool has_own = bundle.weights != nullptr && model.task.empty();
  const std::vector<std::string> own = has_own ? bundle.config.task.labels : std::vector<std::string>();
  // Where the data's labels cannot be listed, the check itself says which pages are broken; what it cannot see without
  // labels is added.
  const auto without_labels = [&](const std::string& kind, const Problem& problem) {
    DataCheck result = check_with(bundle, request, own, nullptr, true);
    if (result.findings.count(Severity::kError) == 0) result.findings.add(Severity::kError, kind, problem);
    return result;
  };
  try {
    resolve_labels(bundle, model, request.data);
  } catch (const PageError& error) {
    // A label that the model does not know, among some that it does: every one of them is listed.
    if (error.kind() == "label-unknown" && !own.empty()) {
      const LabelSet labels(own, "the model's labels");
      return check_with(bundle, request, own, &labels, true);
    }
    return without_labels(error.kind(), error.problem());
  } catch (const DataError& error) {
    return without_labels("labels-missing", error.problem());
  }
  const LabelSet labels(bundle.config.task.labels, "the labels");
  return check_with(bundle, request, labels.names(), &labels, true);
}

void refuse_bad_data(const ModelBundle& bundle, const CheckRequest& request, bool with_labels) {
  const LabelSet labels(bundle.config.task.labels, "the model's labels");
  const DataCheck result = with_labels ? check_with(bundle, request, labels.names(), &labels, true)
                                       : check_with(bundle, request, {}, nullptr, false);
  for (const std::string& line : result.findings.to_lines(Severity::kWarning)) log_warning(line);
  if (result.findings.count(Severity::kError) > 0) {
    const std::string data = listed(request.data.data);
    throw result.findings.to_error(request.evaluation.empty() ? data : data + " and " + listed(request.evaluation));
  }
}

}  // namespace plimsoll
