#include "request/open_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "data/label_scheme.h"
#include "request/check_data.h"

namespace plimsoll {
namespace {

// Labels without B- and I- are read as whole types, which may not be intended.
void say_scheme(const ModelBundle& bundle) {
  if (!bundle.task().labels_words()) return;
  const std::string note = scheme_note(bundle.config.task.labels);
  if (note.empty()) return;
  label_scheme(bundle.config.task.labels) == LabelScheme::kMixed ? log_warning(note) : log_info(note);
}

std::unique_ptr<Dataset> open_checked(const ModelBundle& bundle, const DataRequest& request,
                                      const std::shared_ptr<const TokenizedPages>& pages,
                                      const std::shared_ptr<const Pairs>& pairs, const PageSizes& sizes,
                                      bool with_labels, bool owned_only,
                                      const std::vector<std::uint32_t>& skipped = {}) {
  // A tokenizer that says no boxes leaves them to the family.
  const std::int32_t end = bundle.facts().token.separator_box;
  DatasetOptions options{.parts = page_parts(bundle.facts()),
                         .box_format = request.box_format,
                         .windows = window_options(request, bundle),
                         .begin_box = bundle.tokenizer->bos_box().value_or(Box1000{}),
                         .separator_box = bundle.tokenizer->eos_box().value_or(Box1000{end, end, end, end})};
  if (with_labels && bundle.task().labels_words()) {
    options.labels = LabelSet(bundle.config.task.labels, "the model's labels");
  }
  options.targets = bundle.task().targets(bundle.config.task, with_labels);
  if (with_labels) options.class_weights = bundle.config.task.loss.class_weights;
  options.label_owned_words_only = owned_only;
  options.pairs = pairs;
  options.sizes = sizes;
  options.trains = with_labels && !owned_only;
  if (pairs != nullptr && with_labels) options.pair_targets = bundle.task().pair_targets(bundle.config.task);
  // A run that continues without some pages keeps their places; a prediction does not.
  (with_labels ? options.skipped : options.left_out) = skipped;
  if (request.augment) {
    if (!options.parts.image) {
      throw UsageError({.what = "the model sees no image that could be augmented",
                        .where = "--augment",
                        .found = fmt::format("a model of {}", bundle.config.encoder->model_type()),
                        .allowed = "--augment with a model that reads pictures, such as LayoutLMv3",
                        .remedy = "omit --augment"});
    }
    options.augment = request.augment;
  } else {
    options.cache = {.directory = request.cache, .threads = reading_threads()};
  }
  auto dataset = std::make_unique<Dataset>(pages, ImageProcessor(bundle.image), std::move(options));
  if (dataset->size() == 0) {
    throw DataError({.what = pairs != nullptr ? "there is no pair to learn from" : "there are no pages",
                     .where = listed(dataset->source().paths()),
                     .found = pairs != nullptr     ? counted(pairs->size(), "pair")
                              : pages->size() == 0 ? "an empty file"
                                                   : counted(pages->size(), "page") + " without an example of the task",
                     .allowed = pairs != nullptr ? "at least one pair of pages that belong together, with label 1"
                                                 : "at least one page"});
  }
  if (const std::string lost = lost_text(dataset->lost_words(), dataset->lost_tokens()); !lost.empty()) {
    log_warning(fmt::format("--truncate drops {} at the ends of long {} of {}", lost,
                            dataset->lost_tokens() > 0 ? "texts" : "pages", listed(pages->paths())));
  }
  if (bundle.task().reads_text() && request.max_length <= 0 && dataset->size() > pages->size()) {
    const std::int64_t most = bundle.facts().max_text_tokens();
    log_info(fmt::format("{}: {} cut into {} of at most {}; --max-length sets another length{}", listed(pages->paths()),
                         counted(pages->size(), "text is", "texts are"), counted(dataset->size(), "window"),
                         counted(window_length(request, bundle.facts()), "token"),
                         most < (1 << 30) ? fmt::format(", up to {}", most) : ""));
  }
  return dataset;
}

}  // namespace

namespace {

RunPages open_pages_of(const ModelBundle& bundle, const DataRequest& request, bool with_targets) {
  const ReadOptions reading = read_options(bundle, request, with_targets);
  if (bundle.task().reads_pairs()) return open_pairs(bundle, request, {}, reading);
  return {.train = open_tokenized(bundle, request, request.data, reading), .evaluation = nullptr};
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const ModelBundle& bundle, const DataRequest& request, bool owned_only) {
  say_scheme(bundle);
  const RunPages pages = open_pages_of(bundle, request, true);
  const DataCheck checked = refuse_bad_data(bundle, pages, {.data = request, .threads = reading_threads()});
  return open_checked(bundle, request, pages.train, pages.train_pairs, checked.train.sizes, true, owned_only);
}

std::unique_ptr<Dataset> open_to_predict(const ModelBundle& bundle, const DataRequest& request,
                                         std::vector<SkippedPage>& bad) {
  const RunPages pages = open_pages_of(bundle, request, false);
  PageSizes sizes;
  bad = find_bad_pages(bundle, pages, {.data = request, .threads = reading_threads()}, sizes);
  if (request.range && bad.size() == pages.train->size()) return nullptr;
  return open_checked(bundle, request, pages.train, pages.train_pairs, sizes, false, false, indices_of(bad, false));
}

namespace {

// An update of such examples would change nothing: of questions whose answers are on no page, say.
void refuse_data_without_a_loss(const Dataset& data) {
  if (std::ranges::any_of(data.examples(), [](const auto& example) { return example.loss_terms > 0; })) return;
  throw DataError({.what = "nothing can be learnt from the data",
                   .where = listed(data.source().paths()),
                   .found = counted(data.size(), "example") + ", none of which has a loss",
                   .allowed = "examples of the task, such as a question whose answer is on its page",
                   .remedy = "plimsoll check with the same options says what is wrong with each page"});
}

}  // namespace

RunData open_run_data(ModelBundle& bundle, const DataRequest& request, const RunPages& pages,
                      const RunDataOptions& options) {
  say_scheme(bundle);
  CheckRequest check{.data = request,
                     // A cache decodes every image once, when it is made.
                     .decode_images = options.decode_images && (request.cache.empty() || request.augment),
                     .skipped = options.skipped,
                     .most_decoding_bytes = options.most_decoding_bytes,
                     .threads = reading_threads()};
  if (check.decode_images) check.on_progress = options.on_progress;
  DataCheck checked = refuse_bad_data(bundle, pages, check);
  set_class_weights(bundle, options.class_weights, checked.train.labels);
  if (options.class_weights.balanced) log_info("class weights: " + class_weights_text(bundle.config.task));
  RunData data{.train = open_checked(bundle, request, pages.train, pages.train_pairs, checked.train.sizes, true, false,
                                     indices_of(options.skipped, false)),
               .evaluation = nullptr,
               .findings = std::move(checked.findings)};
  refuse_data_without_a_loss(*data.train);
  if (pages.evaluation == nullptr) return data;
  DataRequest held_out = request;
  held_out.augment.reset();
  data.evaluation = open_checked(bundle, held_out, pages.evaluation, pages.evaluation_pairs, checked.evaluation->sizes,
                                 true, true, indices_of(options.skipped, true));
  return data;
}

}  // namespace plimsoll
