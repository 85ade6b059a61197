#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "base/counted.h"
#include "base/hash.h"
#include "base/in_quotes.h"
#include "data/labels.h"
#include "data/tokenizer_bpe.h"

namespace plimsoll {
namespace {

[[noreturn]] void throw_with_page(const ImageError& error, const Page& page) {
  Problem problem = error.problem();
  problem.where = fmt::format("{}, image {}", place(page), page.image.string());
  throw ImageError(error.kind(), std::move(problem));
}

// Counts <s> and </s>, too.
std::int32_t tokens_of(const Window& window, const Prompt& prompt) {
  return window.end - window.begin + 2 + static_cast<std::int32_t>(prompt.ids.size());
}

Box1000 box_of(const Page& page, std::size_t word, BoxFormat format) {
  const Box1000 box = scale_box(page.boxes[word], page.width, page.height, format);
  if (!box_on_page(box)) throw PageError("box-outside", box_outside_problem(page, word, format));
  return box;
}

}  // namespace

Problem box_outside_problem(const Page& page, std::size_t word, BoxFormat format) {
  return {.what = "a box lies outside the page",
          .where = place(page, word),
          .found = to_string(page.boxes[word]),
          .allowed = format == BoxFormat::kPixel
                         ? fmt::format("x from 0 to {}, y from 0 to {} (pixels)", page.width, page.height)
                         : "numbers from 0 to 1000",
          .remedy = "check --box-format (pixel or 1000), or correct the box"};
}

Problem unknown_label_problem(const Page& page, std::size_t word, const LabelSet& labels) {
  return {.what = "a label is not in the label set",
          .where = place(page, word),
          .found = in_quotes(page.labels[word]),
          .allowed = labels.listed(),
          .remedy = kUnknownLabelRemedy};
}

Problem page_too_long_problem(const Page& page, std::size_t tokens, const WindowOptions& options) {
  return {.what = "a page is longer than a window of the model",
          .where = place(page),
          .found = counted(tokens, "token"),
          .allowed =
              fmt::format("at most {} ({} less the first and the last token)", options.content(), options.max_length),
          .remedy = "pass --truncate, which reads the beginning alone, or split the page into several"};
}

std::string lost_text(std::uint64_t words, std::uint64_t tokens) {
  if (tokens > 0) return counted(tokens, "token");
  return words > 0 ? counted(words, "word") : std::string();
}

Problem completion_cut_problem(const Page& page, std::size_t read, std::size_t tokens) {
  return {
      .what = "a text is cut before the first token that is learnt",
      .where = place(page),
      .found = fmt::format("the first {} of {} are read, all of them of the prompt", read, counted(tokens, "token")),
      .allowed = "at least one token of the completion",
      .remedy = "raise --max-length, shorten the prompt, or omit --truncate"};
}

Problem prompt_too_long_problem(const Page& page, std::size_t item, const Prompt& prompt,
                                const WindowOptions& options) {
  const int most = std::max(0, options.max_length - Prompt::kLeastRoom);
  const bool can_grow = options.most_length == 0 || options.max_length < options.most_length;
  return {.what = "a question leaves no room for the page",
          .where = fmt::format("{}, question {}", place(page), item),
          .found = counted(prompt.ids.size(), "token"),
          .allowed = most > 0 ? fmt::format("at most {}, which leaves {} of a window of {}", most, Prompt::kLeastRoom,
                                            options.max_length)
                              : fmt::format("windows of more than {}, which the page needs beside its question; "
                                            "--max-length is {}",
                                            counted(Prompt::kLeastRoom, "token"), options.max_length),
          .remedy = !can_grow  ? "shorten the question: the model has no longer windows"
                    : most > 0 ? "shorten the question, or pass a larger --max-length"
                               : "pass a larger --max-length"};
}

ImageInfo read_page_image_info(Page& page) {
  try {
    ImageInfo info = read_image_info(page.image);
    if (page.width == 0) {
      page.width = info.width;
      page.height = info.height;
    }
    return info;
  } catch (const ImageError& error) {
    throw_with_page(error, page);
  }
}

void find_page_size(Page& page) {
  if (page.width > 0) return;
  if (page.image.empty() && page.boxes.empty()) {  // a blank page: nothing is in pixels of it
    page.width = page.height = 1;
    return;
  }
  if (page.image.empty()) {
    throw PageError("size-unknown", {.what = "the size of a page is not known, and its boxes are in pixels",
                                     .where = place(page),
                                     .found = "neither `width` and `height` nor an `image`",
                                     .allowed = "the page's width and height in pixels, or its image",
                                     .remedy = "add width and height to the page; or, if its boxes are thousandths of "
                                               "the page, pass --box-format 1000"});
  }
  read_page_image_info(page);
}

Dataset::Dataset(std::shared_ptr<const TokenizedPages> pages, ImageProcessor processor, DatasetOptions options)
    : pages_(std::move(pages)), processor_(std::move(processor)), options_(std::move(options)) {
  validate(options_.windows);
  check(!options_.augment || options_.cache.directory.empty(), "augmented pages are not cached");
  check(!options_.augment || options_.parts.image, "pages with an image are augmented");
  if (options_.pairs) {
    check(!options_.targets && !options_.labels, "pairs have targets, and their pages none");
    if (options_.windows.long_pages == LongPages::kWindows) options_.windows.long_pages = LongPages::kRefuse;
    paired_ = std::make_unique<PairedPages>(pages_, options_.pairs);
  }
  scan();
  if (options_.pairs) scan_pairs();
}

bool Dataset::is_skipped(std::size_t page) const {
  if (options_.pairs) return !looked_at_[page];
  return std::ranges::binary_search(options_.skipped, static_cast<std::uint32_t>(page));
}

std::size_t Dataset::read_page(std::size_t index, Scratch& scratch) const {
  scratch.page = {};  // not two pages at once
  scratch.page = pages_->read(index, scratch.tokens);
  Page& page = scratch.page;
  if (is_skipped(index)) {
    page.width = page.height = 1;
    std::ranges::fill(page.boxes, Box{});  // in pixels of an image whose size is unknown
  }
  if (options_.parts.boxes && options_.box_format == BoxFormat::kPixel) find_page_size(page);
  return options_.targets ? options_.targets->items(page) : 1;
}

void Dataset::cut_item(std::size_t item, Scratch& scratch) const {
  scratch.prompt.assign(scratch.tokens, item, encoder());
  const std::optional<WindowOptions> room = scratch.prompt.room(options_.windows);
  if (!room) {
    throw PageError("prompt-too-long", prompt_too_long_problem(scratch.page, item, scratch.prompt, options_.windows));
  }
  cut_windows(scratch.tokens, *room, scratch.windows);
}

void Dataset::add_to_fingerprint(const EncodedExample& example) {
  for (const std::span<const std::byte> bytes :
       {std::as_bytes(std::span(example.input_ids)), std::as_bytes(std::span(example.bbox))}) {
    fingerprint_.tokens = hash_bytes(bytes, fingerprint_.tokens);
  }
  fingerprint_.labels = hash_bytes(std::as_bytes(std::span(example.labels)), fingerprint_.labels);
  if (!example.targets.empty()) {
    fingerprint_.labels = hash_bytes(std::as_bytes(std::span(example.targets)), fingerprint_.labels);
  }
}

void Dataset::note_tokens(const EncodedExample& example) {
  for (const std::int32_t id : example.input_ids) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= has_token_.size()) has_token_.resize(at + 1, false);
    has_token_[at] = true;
  }
}

std::vector<std::int32_t> Dataset::token_ids() const {
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < has_token_.size(); ++id) {
    if (has_token_[id]) ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

void Dataset::scan() {
  Scratch scratch;
  EncodedExample encoded;
  const bool cached = !options_.cache.directory.empty();
  CacheKey key;
  std::vector<bool> named(pages_->size(), true);
  if (options_.pairs) {
    named = options_.pairs->named_pages(options_.left_out);
    looked_at_ = options_.pairs->named_pages(options_.skipped);
  }
  for (std::size_t p = 0; p < pages_->size(); ++p) {
    if (!named[p]) continue;
    if (!options_.pairs && std::ranges::binary_search(options_.left_out, static_cast<std::uint32_t>(p))) continue;
    const std::size_t items = read_page(p, scratch);
    const Page& page = scratch.page;
    if (options_.parts.image) {
      if (!is_skipped(p)) image_limits_.include(read_page_image_info(scratch.page));
      if (cached) key.add_file(page.image);
      std::error_code unread;  // the error is reported when the file is opened
      const std::uint64_t image_bytes = std::filesystem::file_size(page.image, unread);
      fingerprint_.images = hash_bytes(std::as_bytes(std::span(&image_bytes, 1)), fingerprint_.images);
    }
    check(items <= std::numeric_limits<std::uint16_t>::max(), "a page has a number of items that examples can hold");
    std::int32_t least_end = std::numeric_limits<std::int32_t>::max();  // of the items' windows
    for (std::uint16_t item = 0; item < items; ++item) {
      const Example first{
          .page = static_cast<std::uint32_t>(p), .item = item, .items = static_cast<std::uint16_t>(items)};
      scan_item(first, scratch, encoded, cached ? &key : nullptr);
      least_end = std::min(least_end, scratch.windows.back().end);
    }
    if (items == 0) continue;
    if (page.is_text) {
      lost_tokens_ += scratch.tokens.ids.size() - static_cast<std::size_t>(least_end);
      continue;
    }
    for (std::size_t word = 0; word < scratch.tokens.first_of_word.size(); ++word) {
      const std::int32_t first = scratch.tokens.first_of_word[word];
      const bool lost = first >= least_end;
      lost_words_ += lost ? 1U : 0U;
      if ((!lost && first != kNoWord) || page.labels.empty()) continue;
      const std::int32_t label = label_of(page, word);
      if (label == kIgnoredLabel) continue;
      missed_.push_back(
          {.page = static_cast<std::uint32_t>(p), .word = static_cast<std::uint32_t>(word), .label = label});
    }
  }
  examples_.shrink_to_fit();
  loss_weights_.shrink_to_fit();
  missed_.shrink_to_fit();
  if (cached) open_cache(key);
}

namespace {

// Returns the sum of the weights of an example's labels, or the weight of the class that is its target.
float weight_of(const EncodedExample& example, std::span<const float> class_weights) {
  double weight = 0;
  for (const std::int32_t label : example.targets.empty() ? example.labels : example.targets) {
    if (label != kIgnoredLabel) weight += double{class_weights[static_cast<std::size_t>(label)]};
  }
  return static_cast<float>(weight);
}

}  // namespace

void Dataset::scan_item(const Example& first, Scratch& scratch, EncodedExample& encoded, CacheKey* key) {
  cut_item(first.item, scratch);
  const auto windows = static_cast<std::uint16_t>(
      std::min<std::size_t>(scratch.windows.size(), std::numeric_limits<std::uint16_t>::max()));
  if (scratch.windows.size() > windows || (windows > 1 && options_.windows.long_pages == LongPages::kRefuse)) {
    throw PageError("page-too-long", page_too_long_problem(scratch.page, scratch.tokens.ids.size(), options_.windows));
  }
  for (std::uint16_t w = 0; w < windows; ++w) {
    const Window& window = scratch.windows[w];
    Example example = first;
    example.begin = static_cast<std::uint32_t>(window.begin);
    example.window = w;
    example.windows = windows;
    example.tokens = static_cast<std::uint16_t>(tokens_of(window, scratch.prompt));
    encode(example, scratch, encoded);
    const PageWindow part{
        .page = scratch.page, .tokens = scratch.tokens, .windows = scratch.windows, .index = std::size_t{w}};
    if (options_.targets && is_idle(*options_.targets, part)) continue;
    if (key != nullptr) add_to_key(encoded, *key);
    add_to_fingerprint(encoded);
    note_tokens(encoded);
    example.loss_terms = static_cast<std::uint16_t>(encoded.loss_terms);
    targets_ = encoded.targets.size();
    longest_example_ = std::max(longest_example_, static_cast<int>(example.tokens));
    examples_.push_back(example);
    if (!options_.class_weights.empty() && !options_.pairs) {
      loss_weights_.push_back(weight_of(encoded, options_.class_weights));
    }
  }
  const auto read = static_cast<std::size_t>(scratch.windows.back().end), all = scratch.tokens.ids.size();
  const PageWindow beginning{.page = scratch.page, .tokens = scratch.tokens, .windows = scratch.windows};
  if (read < all && options_.targets && options_.targets->learnt_tokens(beginning) == 0) {
    throw PageError("completion-cut", completion_cut_problem(scratch.page, read, all));
  }
}

namespace {

PageError page_changed(const Page& page, std::string found) {
  return PageError("page-changed", {.what = "a page has changed since the data was first read",
                                    .where = place(page),
                                    .found = std::move(found),
                                    .remedy = "do not change data files during a run; start again"});
}

}  // namespace

void Dataset::check_tokens(const Page& page, const EncodedExample& example) const {
  const auto is_new = [this](std::int32_t id) {
    return static_cast<std::size_t>(id) >= has_token_.size() || !has_token_[static_cast<std::size_t>(id)];
  };
  if (std::ranges::any_of(example.input_ids, is_new)) throw page_changed(page, "a word that no page had");
}

void Dataset::cut_unchanged(const Example& example, Scratch& scratch) const {
  cut_item(example.item, scratch);
  const bool same = scratch.windows.size() == example.windows &&
                    scratch.windows[example.window].begin == static_cast<std::int32_t>(example.begin) &&
                    tokens_of(scratch.windows[example.window], scratch.prompt) == example.tokens;
  if (!same) throw page_changed(scratch.page, counted(scratch.tokens.ids.size(), "token") + " in other windows");
}

void Dataset::scan_pairs() {
  const Pairs& pairs = *options_.pairs;
  example_of_page_.assign(pages_->size(), Pairs::kNoPage);
  for (std::uint32_t i = 0; i < examples_.size(); ++i) example_of_page_[examples_[i].page] = i;
  EncodedExample encoded;
  for (std::uint32_t p = 0; p < pairs.size(); ++p) {
    if (!pairs.is_usable(p) || std::ranges::binary_search(options_.left_out, p)) continue;
    if (options_.trains && options_.pair_targets && !options_.pair_targets->trains_on(pairs, p)) continue;
    Example example{.page = p};
    float weight = 0;
    int tokens = 0;
    for (const int side : {0, 1}) {
      const std::uint32_t page = side == 0 ? pairs[p].a : pairs[p].b;
      tokens += examples_[example_of_page_[page]].tokens;
      if (side == 0) example.begin = static_cast<std::uint32_t>(tokens);
      encoded.targets.clear();
      encoded.loss_terms = 0;
      if (options_.pair_targets) options_.pair_targets->encode(pairs, p, side, options_.trains, encoded);
      example.loss_terms = static_cast<std::uint16_t>(example.loss_terms + encoded.loss_terms);
      if (!options_.class_weights.empty()) weight += weight_of(encoded, options_.class_weights);
      fingerprint_.labels = hash_bytes(std::as_bytes(std::span(&page, 1)), fingerprint_.labels);
      fingerprint_.labels = hash_bytes(std::as_bytes(std::span(encoded.targets)), fingerprint_.labels);
    }
    if (tokens > std::numeric_limits<std::uint16_t>::max()) {
      throw PageError("page-too-long", {.what = "the pages of a pair are too long together",
                                        .where = pairs.place(p),
                                        .found = counted(tokens, "token"),
                                        .allowed = "at most 65535",
                                        .remedy = "pass a smaller --max-length with --truncate"});
    }
    example.tokens = static_cast<std::uint16_t>(tokens);
    pair_examples_.push_back(example);
    if (!options_.class_weights.empty()) loss_weights_.push_back(weight);
  }
  pair_examples_.shrink_to_fit();
}

void Dataset::load(std::size_t index, Scratch& scratch, EncodedExample& out, std::span<std::uint8_t> pixels,
                   std::uint64_t epoch, int side) const {
  if (!options_.pairs) return load_page(index, scratch, out, pixels, epoch);
  const std::uint32_t pair = pair_examples_.at(index).page;
  const Pairs::Pair& pages = (*options_.pairs)[pair];
  load_page(example_of_page_[side == 0 ? pages.a : pages.b], scratch, out, pixels, epoch);
  out.targets.clear();
  out.loss_terms = 0;
  if (options_.pair_targets) options_.pair_targets->encode(*options_.pairs, pair, side, options_.trains, out);
}

void Dataset::load_page(std::size_t index, Scratch& scratch, EncodedExample& out, std::span<std::uint8_t> pixels,
                        std::uint64_t epoch) const {
  const Example& example = examples_.at(index);
  if (cache_ != nullptr && load_cached(index, out, pixels)) return;
  if (read_page(example.page, scratch) != example.items) {
    throw page_changed(scratch.page, "another number of questions");
  }
  cut_unchanged(example, scratch);
  if (options_.augment) {
    if (scratch.page.width == 0) read_page_image_info(scratch.page);
    scratch.augmentation = augmentation_of(example.page, epoch, scratch.page);
  }
  encode(example, scratch, out);
  check_tokens(scratch.page, out);
  if (!pixels.empty()) load_pixels(scratch, pixels);
}

Augmentation Dataset::augmentation_of(std::size_t page, std::uint64_t epoch, const Page& content) const {
  const AugmentationKey key{.seed = *options_.augment, .epoch = epoch, .page = static_cast<std::uint32_t>(page)};
  const double aspect = static_cast<double>(content.width) / content.height;
  for (const double strength : {1.0, 0.5, 0.25}) {
    const Augmentation drawn = Augmentation::draw(key, aspect, strength);
    bool keeps = true;
    for (std::size_t w = 0; keeps && w < content.words.size(); ++w) {
      keeps = drawn.keeps(box_of(content, w, options_.box_format));
    }
    if (keeps) return drawn;
  }
  return Augmentation::draw(key, aspect, 0);
}

void Dataset::load_pixels(Scratch& scratch, std::span<std::uint8_t> out) const {
  const ImageInfo info = read_page_image_info(scratch.page);
  if (info.width > image_limits_.width || info.height > image_limits_.height ||
      info.decode_bytes > image_limits_.decode_bytes) {
    throw page_changed(scratch.page, fmt::format("an image of {} x {} pixels, larger than every image read at first",
                                                 info.width, info.height));
  }
  try {
    std::optional<ByteGate::Pass> pass;
    if (scratch.decoding != nullptr) pass.emplace(*scratch.decoding, info.decode_bytes);
    if (!options_.augment) return processor_.load(scratch.page.image, scratch.resampler, out);
    constexpr int kScale = Augmentation::kOversampling;
    scratch.picture.resize(kScale * kScale * out.size());
    processor_.load(scratch.page.image, scratch.resampler, scratch.picture, kScale);
    scratch.augmentation.apply(scratch.picture, processor_.config().width, processor_.config().height, scratch.blurred,
                               out);
  } catch (const ImageError& error) {
    throw_with_page(error, scratch.page);
  }
}

void Dataset::encode(const Example& example, const Scratch& scratch, EncodedExample& out) const {
  const Page& page = scratch.page;
  const PageTokens& tokens = scratch.tokens;
  const Window& window = scratch.windows[example.window];
  const auto token_count = static_cast<std::int32_t>(tokens.ids.size());

  const Box1000& separator = options_.separator_box;
  const auto add_outer = [&](std::int32_t id, const Box1000& box) {
    if (id == kNoToken) return;
    out.input_ids.push_back(id);
    out.bbox.push_back(box);
    out.labels.push_back(kIgnoredLabel);
    out.predicts.push_back(kNoWord);
  };
  out.input_ids.clear();
  out.bbox.clear();
  out.labels.clear();
  out.predicts.clear();
  add_outer(encoder().bos_id, options_.begin_box);
  const std::vector<std::int32_t>& prompt = scratch.prompt.ids;
  if (!prompt.empty()) {
    const std::size_t rows = out.input_ids.size() + prompt.size();
    out.input_ids.insert(out.input_ids.end(), prompt.begin(), prompt.end());
    for (const std::int32_t id : prompt) out.bbox.push_back(id == encoder().eos_id ? separator : Box1000{});
    out.labels.resize(rows, kIgnoredLabel);
    out.predicts.resize(rows, kNoWord);
  }
  out.pair_begin = prompt.empty() ? 0 : static_cast<std::int32_t>(out.input_ids.size());
  const std::size_t first_row = out.input_ids.size();
  for (std::int32_t token = window.begin; token < window.end; ++token) {
    const std::int32_t word = tokens.words[static_cast<std::size_t>(token)];
    const auto w = static_cast<std::size_t>(word);
    const bool first = tokens.first_of_word[w] == token;
    const bool owned = first && owning_window(scratch.windows, token, token_count) == static_cast<int>(example.window);
    out.input_ids.push_back(tokens.ids[static_cast<std::size_t>(token)]);
    // A word's box is scaled once, at the first of its tokens in this window.
    if (options_.parts.boxes) {
      out.bbox.push_back(first || token == window.begin
                             ? scratch.augmentation.move(box_of(page, w, options_.box_format))
                             : Box1000(out.bbox.back()));
    } else {
      out.bbox.push_back(Box1000{});
    }
    out.predicts.push_back(owned ? word : kNoWord);
    const bool labelled = first && (owned || !options_.label_owned_words_only) && !page.labels.empty();
    out.labels.push_back(labelled ? label_of(page, w) : kIgnoredLabel);
  }
  add_outer(encoder().eos_id, separator);
  out.targets.clear();
  out.loss_terms = std::ssize(out.labels) - std::count(out.labels.begin(), out.labels.end(), kIgnoredLabel);
  if (options_.targets) {
    options_.targets->encode({.page = page,
                              .tokens = tokens,
                              .windows = scratch.windows,
                              .index = example.window,
                              .item = example.item,
                              .first_row = first_row},
                             out);
  }
}

std::int32_t Dataset::label_of(const Page& page, std::size_t word) const {
  if (!options_.labels || page.labels[word].empty()) return kIgnoredLabel;
  if (const auto id = options_.labels->find(page.labels[word])) return *id;
  throw PageError("label-unknown", unknown_label_problem(page, word, *options_.labels));
}

std::span<const MissedWord> Dataset::missed_words(std::uint32_t page) const {
  // clang 14 cannot compile the result of std::ranges::equal_range with libstdc++ 12.
  const auto begin = std::ranges::lower_bound(missed_, page, {}, &MissedWord::page);
  const auto end = std::ranges::upper_bound(missed_, page, {}, &MissedWord::page);
  return {begin, end};
}

std::uint64_t Dataset::host_bytes() const {
  return (examples_.capacity() + pair_examples_.capacity()) * sizeof(Example) +
         (options_.pairs ? options_.pairs->host_bytes() : 0) + has_token_.capacity() / 8 +
         missed_.capacity() * sizeof(MissedWord) + pages_->host_bytes() + (cache_ ? cache_->host_bytes() : 0);
}

std::uint64_t Dataset::workers_host_bytes(int threads, std::uint64_t decoding_bytes) const {
  // Pages are parsed before the workers start; if packed bytes are damaged, one thread at a time parses their page,
  // packs it in memory and unpacks it.
  constexpr std::uint64_t kThreadBytes = 256 * 1024;
  const auto count = static_cast<std::uint64_t>(threads);
  const std::uint64_t decode_bytes = image_limits_.decode_bytes;
  const std::uint64_t unpacking = pages_->unpacking_bytes();
  const std::uint64_t parsing = std::max(pages_->parsing_bytes(), pages_->mapped_bytes() + unpacking);
  // Counts the picture that an augmentation reads, and a copy of the result, which it blurs.
  const int scale = options_.augment ? Augmentation::kOversampling : 1;
  const std::uint64_t augmenting_bytes =
      options_.augment ? (static_cast<std::uint64_t>(scale * scale) + 1) * processor_.pixel_count() : 0;
  // A cache does not lower this: a page whose entry is damaged is decoded from its image.
  return std::min(count * decode_bytes, std::max(decode_bytes, decoding_bytes)) +
         count * (pages_->mapped_bytes() + (cache_ ? cache_->mapped_bytes() : 0)) + parsing + (count - 1) * unpacking +
         count * (augmenting_bytes + (options_.parts.image ? processor_.host_bytes(image_limits_, scale) : 0) +
                  kThreadBytes);
}

std::uint64_t Dataset::reading_bytes() const {
  return (options_.pairs ? 2U : 1U) * (pages_->mapped_bytes() + pages_->unpacking_bytes());
}

}  // namespace plimsoll
