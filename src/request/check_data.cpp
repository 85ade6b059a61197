#include "request/check_data.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "tasks/parts/other_task.h"

namespace plimsoll {
namespace {

bool all_folders(const PageSource& source) {
  return std::ranges::all_of(source.paths(), [](const auto& path) { return std::filesystem::is_directory(path); });
}

// Returns the pages that no pair uses, apart from those at `skipped`.
std::vector<std::uint32_t> unseen_pages(const Pairs& pairs, const std::vector<std::uint32_t>& skipped) {
  const std::vector<bool> named = pairs.named_pages(skipped);
  std::vector<std::uint32_t> unseen;
  for (std::uint32_t page = 0; page < named.size(); ++page) {
    if (!named[page]) unseen.push_back(page);
  }
  return unseen;
}

// Adds the faults of pairs, and the pairs that cannot be used because of their pages, to the report on the pages.
void add_pair_checks(const ModelBundle& bundle, const TaskConfig& task, const Pairs& pairs, bool required,
                     CheckReport& report) {
  std::vector<bool> bad(pairs.size());
  std::vector<BadPage> bad_pairs;
  Findings findings;
  if (required) {
    bundle.task().pair_targets(task)->check(pairs, findings, report.labels);
    report.target_pages = report.targets = pairs.size();
  } else {
    pairs.add_faults(findings);
  }
  report.findings.merge(findings);
  const auto fault_of = [&](std::uint32_t page) {
    const auto at = std::ranges::lower_bound(report.bad_pages, page, {}, &BadPage::page);
    return at != report.bad_pages.end() && at->page == page ? &at->problem : nullptr;
  };
  auto fault = pairs.faults().begin();
  for (std::uint32_t pair = 0; pair < pairs.size(); ++pair) {
    if (!pairs.is_usable(pair)) {
      bad_pairs.push_back({.page = pair, .problem = (fault++)->second.problem()});
      continue;
    }
    const Problem* const first = fault_of(pairs[pair].a);
    const Problem* const problem = first != nullptr ? first : fault_of(pairs[pair].b);
    if (problem != nullptr) bad_pairs.push_back({.page = pair, .problem = *problem});
  }
  report.bad_pages = std::move(bad_pairs);
}

// What `check` and the beginning of a run have in common. Only `labels` may occur; nullptr: any.
DataCheck check_with(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request,
                     const LabelSet* labels, bool required) {
  TaskConfig task = bundle.config.task;
  if (labels != nullptr) task.labels = labels->names();
  if (labels == nullptr && required) task.labels.clear();  // they are unknown
  const std::shared_ptr<const Targets> targets =
      labels != nullptr || required || bundle.task().asks() ? bundle.task().targets(task, required) : nullptr;
  const bool pairs = pages.train_pairs != nullptr;
  WindowOptions windows = window_options(request.data, bundle);
  if (pairs && windows.long_pages == LongPages::kWindows) windows.long_pages = LongPages::kRefuse;
  const auto run = [&](const TokenizedPages& source, bool evaluation) {
    return check_pages(source,
                       {.parts = page_parts(bundle.facts()),
                        .box_format = request.data.box_format,
                        .labels = pairs ? nullptr : labels,
                        .labels_required = required && !pairs,
                        .texts_required = required,
                        .words_labelled = bundle.task().labels_words(),
                        .targets = targets,
                        .targets_known = pairs || labels != nullptr || !required,
                        .tokens = &source,
                        .vocab_size = bundle.facts().vocab_size,
                        .windows = windows,
                        .segments_known = all_folders(source) && !request.data.segment_boxes,
                        .decode_images = request.decode_images,
                        .decoding_bytes = request.decoding_bytes,
                        .most_decoding_bytes = request.most_decoding_bytes,
                        .skipped = pairs ? unseen_pages(evaluation ? *pages.evaluation_pairs : *pages.train_pairs,
                                                        indices_of(request.skipped, evaluation))
                                         : indices_of(request.skipped, evaluation),
                        .places_kept = request.places_kept,
                        .keeps_bad_pages = pairs || !required,
                        .threads = request.threads,
                        .share = request.share,
                        .remedy_without_labels = remedy_with_task,
                        .on_progress = request.on_progress});
  };
  DataCheck result{.findings = Findings(request.places_kept), .train = run(*pages.train, false)};
  if (pairs) add_pair_checks(bundle, task, *pages.train_pairs, required, result.train);
  result.findings.merge(result.train.findings);
  if (pages.evaluation == nullptr) return result;
  if (pairs) {
    // Pages that both use are checked once.
    result.evaluation = pages.evaluation == pages.train ? CheckReport() : run(*pages.evaluation, true);
    add_pair_checks(bundle, task, *pages.evaluation_pairs, required, *result.evaluation);
    if (pages.evaluation == pages.train) {
      pages.evaluation_pairs->check_held_out(*pages.train_pairs, bundle.task().pair_targets(task)->order(),
                                             result.evaluation->findings);
    }
    result.findings.merge(result.evaluation->findings);
    return result;
  }
  result.evaluation = run(*pages.evaluation, true);
  result.findings.merge(result.evaluation->findings);
  result.findings.merge(
      compare_data({*pages.train, result.train}, {*pages.evaluation, *result.evaluation},
                   {.words_labelled = bundle.task().labels_words(), .places_kept = request.places_kept}));
  return result;
}

}  // namespace

RunPages open_pairs(const ModelBundle& bundle, const DataRequest& data, const PagePaths& evaluation,
                    ReadOptions reading, const std::function<void(std::size_t done, std::size_t pages)>& on_progress) {
  if (data.range) {
    throw UsageError({.what = "a range is of pages, and the task reads pairs",
                      .where = "--pages-range",
                      .found = std::string(bundle.task().name()),
                      .remedy = "split the file of pairs instead"});
  }
  const Pairs::Form form = data.pages.empty() ? Pairs::Form::kInLine : Pairs::Form::kIds;
  reading.pairs = form == Pairs::Form::kInLine;
  reading.ignore_labels = true;
  const auto group_of = [&task = bundle.task()](const Page& page) { return task.group_of(page); };
  const auto open = [&](const PagePaths& paths) { return open_tokenized(bundle, data, paths, reading, on_progress); };
  RunPages pages{.train = open(reading.pairs ? data.data : data.pages), .evaluation = nullptr};
  pages.train_pairs = std::make_shared<const Pairs>(data.data, *pages.train, form, group_of);
  if (evaluation.empty()) return pages;
  pages.evaluation = reading.pairs ? open(evaluation) : pages.train;
  pages.evaluation_pairs = std::make_shared<const Pairs>(evaluation, *pages.evaluation, form, group_of);
  return pages;
}

RunPages open_run_pages(const ModelBundle& bundle, const ModelRequest& model, const DataRequest& data,
                        const PagePaths& evaluation,
                        const std::function<void(std::size_t done, std::size_t pages)>& on_progress) {
  const ReadOptions reading = labelled_reading(bundle, model, data);
  if (bundle.task().reads_pairs()) return open_pairs(bundle, data, evaluation, reading, on_progress);
  RunPages pages{.train = open_tokenized(bundle, data, data.data, reading, on_progress), .evaluation = nullptr};
  if (!evaluation.empty()) pages.evaluation = open_tokenized(bundle, data, evaluation, reading, on_progress);
  return pages;
}

DataCheck check_data(ModelBundle& bundle, const ModelRequest& model, const CheckRequest& request) {
  const bool has_own = bundle.weights != nullptr && model.task.empty();
  const std::vector<std::string> own = has_own ? bundle.config.task.labels : std::vector<std::string>();
  set_task_and_labels(bundle, model);
  bundle.definition();  // refuses families that cannot do the task
  const RunPages pages = open_run_pages(bundle, model, request.data, request.evaluation, request.on_progress);
  // If the data's labels cannot be listed, the check itself says which pages are broken; problems that it cannot find
  // without labels are added.
  const auto without_labels = [&](const std::string& kind, const Problem& problem) {
    DataCheck result = check_with(bundle, pages, request, nullptr, true);
    if (result.findings.count(Severity::kError) == 0) result.findings.add(Severity::kError, kind, problem);
    return result;
  };
  Findings said;
  try {
    said = resolve_labels(bundle, model, *pages.train);
  } catch (const PageError& error) {
    // If the model knows some labels but not others, every unknown one is listed.
    if (error.kind() == "label-unknown" && !own.empty()) {
      const LabelSet labels(own, "the model's labels");
      return check_with(bundle, pages, request, &labels, true);
    }
    return without_labels(error.kind(), error.problem());
  } catch (const DataError& error) {
    return without_labels("labels-missing", error.problem());
  }
  const LabelSet labels(bundle.config.task.labels, "the labels");
  DataCheck result = check_with(bundle, pages, request, &labels, true);
  result.findings.merge(said);
  return result;
}

void log_findings(const Findings& findings) {
  for (const std::string& line : findings.to_lines(Severity::kWarning)) log_warning(line);
  for (const std::string& line : findings.to_lines(Severity::kInfo)) log_info(line);
}

namespace {

// Names the files in which an error may be: pairs, and pages that they name.
std::string files_of(const PageSource& pages, const Pairs* pairs) {
  const std::string paths = listed(pages.paths());
  if (pairs == nullptr || listed(pairs->paths()) == paths) return paths;
  return listed(pairs->paths()) + " and " + paths;
}

}  // namespace

DataCheck refuse_bad_data(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request) {
  const LabelSet labels(bundle.config.task.labels, "the model's labels");
  DataCheck result = check_with(bundle, pages, request, &labels, true);
  for (const std::string& line : result.findings.to_lines(Severity::kWarning)) log_warning(line);
  if (result.findings.count(Severity::kError) > 0) {
    std::string files = files_of(*pages.train, pages.train_pairs.get());
    if (pages.evaluation != nullptr) files += " and " + files_of(*pages.evaluation, pages.evaluation_pairs.get());
    throw result.findings.to_error(files);
  }
  return result;
}

std::vector<SkippedPage> find_bad_pages(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request,
                                        PageSizes& sizes) {
  const DataCheck result = check_with(bundle, pages, request, nullptr, false);
  sizes = result.train.sizes;
  for (const std::string& line : result.findings.to_lines(Severity::kWarning)) log_warning(line);
  const std::size_t bad = result.train.bad_pages.size();
  const std::size_t all = pages.train_pairs ? pages.train_pairs->size() : pages.train->size();
  // If every page of a shard is bad, other shards may still have good ones.
  const bool all_bad = bad == all && !request.data.range;
  if (result.findings.count(Severity::kError) > 0 && (bad == 0 || all_bad)) {
    throw result.findings.to_error(files_of(*pages.train, pages.train_pairs.get()));
  }
  std::vector<SkippedPage> skipped;
  for (const BadPage& page : result.train.bad_pages) skipped.push_back({.page = page.page, .problem = page.problem});
  return skipped;
}

}  // namespace plimsoll
