#include "request/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/process.h"

namespace plimsoll {

int reading_threads() { return std::min(4, available_cores()); }

PageParts page_parts(const EncoderFacts& facts) {
  return {.boxes = facts.coordinates > 0, .image = facts.image.size > 0};
}

ReadOptions read_options(const ModelBundle& bundle, const DataRequest& request, bool with_targets) {
  const Task& task = bundle.task();
  const PageParts parts = page_parts(bundle.facts());
  ReadOptions options{.segment_boxes = request.segment_boxes,
                      .parts = parts,
                      .ignore_labels = !with_targets || !task.labels_words(),
                      .texts = task.takes_texts() && !parts.boxes && !parts.image,
                      .target = with_targets || task.asks() ? task.reader() : nullptr,
                      .chat = bundle.chat,
                      .counts = request.counts};
  if (with_targets) options.label_names = bundle.config.task.labels;
  return options;
}

std::unique_ptr<PageSource> open_requested(const DataRequest& request, const PagePaths& paths,
                                           const ReadOptions& reading) {
  std::unique_ptr<PageSource> pages = open_pages(paths, reading);
  return request.range ? open_range(std::move(pages), *request.range) : std::move(pages);
}

std::shared_ptr<const TokenizedPages> open_tokenized(
    const ModelBundle& bundle, const DataRequest& request, const PagePaths& paths, const ReadOptions& reading,
    const std::function<void(std::size_t done, std::size_t pages)>& on_progress) {
  PageStorage storage{.directory = request.work, .threads = reading_threads(), .on_progress = on_progress};
  if (!request.cache.empty()) {
    storage.directory = request.cache;
    std::uint64_t key = bundle.tokenizer->fingerprint();
    if (bundle.chat && bundle.task().reads_text()) {
      const std::string templates = bundle.chat->source();
      key = hash_bytes(std::as_bytes(std::span(templates)), key);
    }
    storage.kept_for = key;
  }
  return std::make_shared<TokenizedPages>(open_requested(request, paths, reading), bundle.word_encoder(), reading,
                                          storage);
}

int window_length(const DataRequest& request, const EncoderFacts& facts) {
  constexpr std::int64_t kUsual = 512;
  const std::int64_t most = facts.max_text_tokens();
  const std::int64_t length = request.max_length > 0 ? request.max_length : std::min(kUsual, most);
  constexpr std::int64_t kLeast = 3;
  if (length < kLeast || length > most) {
    throw UsageError(
        {.what = length > most ? "windows of that length exceed the model's positions"
                               : "a window of that length has no room for text",
         .where = "--max-length",
         .found = fmt::format("{}", length),
         .allowed = fmt::format(
             "{} (the first and the last token and one between) to {} ({}{})", kLeast, most, facts.limited_by,
             facts.token.first_position > 0 ? fmt::format(" {} less the padding position", facts.positions) : ""),
         .remedy = fmt::format("pass --max-length {}; longer pages become several windows",
                               length > most ? most : std::min(kUsual, most))});
  }
  return static_cast<int>(length);
}

WindowOptions window_options(const DataRequest& request, const ModelBundle& bundle) {
  const EncoderFacts facts = bundle.facts();
  const WordEncoder encoder = bundle.word_encoder();
  const int length = window_length(request, facts);
  // Windows of a page overlap, so that each word has context; a running text is learned once.
  const bool runs_on = bundle.task().reads_text();
  const int usual_stride = runs_on ? 0 : std::min(128, length / 4);
  WindowOptions options{.max_length = length,
                        .stride = request.stride >= 0 ? request.stride : usual_stride,
                        .outer = (encoder.bos_id == kNoToken ? 0 : 1) + (encoder.eos_id == kNoToken ? 0 : 1),
                        .long_pages = request.truncate ? LongPages::kTruncate : LongPages::kWindows,
                        .most_length = static_cast<int>(std::min<std::int64_t>(facts.max_text_tokens(), 1 << 30))};
  validate(options);
  return options;
}

}  // namespace plimsoll
