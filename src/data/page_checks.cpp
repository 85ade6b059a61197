#include "data/page_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "data/dataset.h"
#include "data/image_checks.h"

namespace plimsoll {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  // This is the finaliser of splitmix64 (Steele, Lea, Flood 2014).
  std::uint64_t z = hash + 0x9E3779B97F4A7C15U + value;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
  z = (z ^ z >> 27) * 0x94D049BB133111EBU;
  return z ^ z >> 31;
}

// Hashes words and boxes, so that a page is recognised under any name; returns 0 for a page of few words, which may
// well occur twice.
std::uint64_t content_hash(const Page& page) {
  constexpr std::size_t kFewestWords = 5, kFewestBytes = 12;  // less may well be equal by chance
  std::size_t bytes = 0;
  for (const std::string& word : page.words) bytes += word.size();
  if (page.is_text ? bytes < kFewestBytes : page.words.size() < kFewestWords) return 0;
  std::uint64_t hash = page.words.size();
  for (const std::string& word : page.words) hash = mixed(hash, std::hash<std::string>()(word));
  for (const Box& box : page.boxes) {
    for (const double value : box) hash = mixed(hash, std::hash<double>()(value));
  }
  return std::max<std::uint64_t>(hash, 1);
}

std::uint64_t asked_hash(const Page& page, std::uint64_t content) {
  const std::string asked = page.target == nullptr ? std::string() : page.target->asked();
  return content == 0 || asked.empty() ? content : mixed(content, std::hash<std::string>()(asked));
}

std::uint64_t picture_hash(const Page& page) {
  return page.image.empty() ? 0 : std::hash<std::string>()(page.image.lexically_normal().string());
}

Problem turned_image_problem(const Page& page, const ImageInfo& info) {
  constexpr const char* kHow[] = {"mirrored",
                                  "rotated by 180 degrees",
                                  "upside down and mirrored",
                                  "mirrored and rotated by 90 degrees",
                                  "rotated by 90 degrees clockwise",
                                  "mirrored and rotated by 90 degrees",
                                  "rotated by 90 degrees counterclockwise"};
  return {.what = "a page's image has an EXIF orientation, and is rotated as viewers show it",
          .where = fmt::format("{}, image {}", place(page), page.image.string()),
          .found = fmt::format("orientation {}: {}", info.orientation, kHow[info.orientation - 2]),
          .allowed = fmt::format("boxes measured on the rotated image of {} x {} pixels", info.width, info.height),
          .remedy =
              "this is fine if the boxes fit the image as a viewer shows it; otherwise rotate the boxes, or write the "
              "image again without the orientation"};
}

}  // namespace

Problem mixed_labels_problem(std::string where, std::string_view label) {
  return {.what = "labels of different schemes are mixed",
          .where = std::move(where),
          .found = in_quotes(label),
          .allowed = "one scheme: IOB1, IOB2, BIOES or BILOU with a tag before each type, or plain names throughout",
          .remedy = "name all labels in one scheme, for example B-X for the first word of an X and I-X for the others"};
}

PageChecker::PageChecker(const PageSource& source, const CheckOptions& options, ByteGate& decoding)
    : source_(source), options_(options), decoding_(decoding) {
  if (options_.labels != nullptr) scheme_ = label_scheme(options_.labels->names());
}

void PageChecker::check(std::size_t index, BlockReport& block) {
  block_ = &block;
  if (!options_.keeps_bad_pages) return read_and_check(index);
  Findings before = std::exchange(block.findings, Findings(options_.places_kept));
  read_and_check(index);
  if (block.findings.count(Severity::kError) > 0) {
    block.bad_pages.push_back({static_cast<std::uint32_t>(index), block.findings.sorted().front().first});
  }
  before.merge(block.findings);
  block.findings = std::move(before);
}

void PageChecker::read_and_check(std::size_t index) {
  PageFaults faults;
  try {
    Page page =
        options_.tokens != nullptr ? options_.tokens->read(index, tokens_, &faults) : source_.read(index, &faults);
    for (PageError& fault : faults) add(Severity::kError, fault.kind(), fault.problem());
    check_page(page, index, faults.empty());
  } catch (const PageError& error) {
    for (PageError& fault : faults) add(Severity::kError, fault.kind(), fault.problem());
    add(Severity::kError, error.kind(), error.problem());
  } catch (const DataError& error) {
    add(Severity::kError, "page-unreadable", error.problem());
  }
}

void PageChecker::add(Severity severity, std::string_view kind, Problem problem) {
  block_->findings.add(severity, kind, std::move(problem));
}

namespace {

PageSize size_of(const Page& page) {
  // A text is one word; of its bytes as JSON, as many as a page's words have count as one.
  constexpr std::uint64_t kWordBytes = 128;
  std::uint64_t bytes = 0;
  for (const std::string& word : page.words) bytes += word.size();
  PageSize size{.words = page.words.size() + bytes / kWordBytes};
  if (page.target == nullptr) return size;
  size.subjects = page.target->subjects();
  size.subject_words = page.target->subject_words();
  size.pairs = size.subjects * size.subjects;
  return size;
}

}  // namespace

// `is_whole` says that the reader has reported no fault.
void PageChecker::check_page(Page& page, std::size_t index, bool is_whole) {
  ++block_->counts.pages;
  block_->counts.texts += page.is_text ? 1U : 0U;
  block_->counts.words += page.words.size();
  const std::uint64_t content = content_hash(page);
  block_->pages.push_back({.index = static_cast<std::uint32_t>(index),
                           .id = std::hash<std::string>()(page.id),
                           .content = content,
                           .asked = asked_hash(page, content),
                           .picture = options_.parts.image ? picture_hash(page) : 0,
                           .document = page.document.empty() ? 0 : std::hash<std::string>()(page.document),
                           .size = size_of(page)});
  // An empty scan has nothing to learn from, but it has a prediction.
  const bool seen = options_.parts.image && options_.targets && options_.targets->learns_without_words();
  const bool words_required =
      page.is_text ? options_.labels_required || options_.texts_required : options_.labels_required && !seen;
  if (page.words.empty() && words_required) {
    add(Severity::kError, "empty-page",
        {.what = page.is_text ? "a text is empty" : "a page has no words",
         .where = place(page),
         .found = page.is_text ? "\"\"" : "0 words",
         .allowed = page.is_text ? "at least one character" : "at least one",
         .remedy = page.is_text ? "omit the line, or write the text" : "omit the page, or run OCR first"});
  }
  const bool is_skipped = std::ranges::binary_search(options_.skipped, static_cast<std::uint32_t>(index));
  if (!is_skipped) {
    if (options_.parts.image) {
      check_image(page);
    } else if (options_.parts.boxes && options_.box_format == BoxFormat::kPixel) {
      check_size(page);
    }
    if (options_.parts.boxes) check_page_boxes(page);
  }
  check_labels(page, is_whole);
  check_tokens(page, is_skipped);
}

// For a model that sees only boxes.
void PageChecker::check_size(Page& page) {
  try {
    find_page_size(page);
  } catch (const PageError& error) {
    add(Severity::kError, error.kind(), error.problem());
  } catch (const ImageError& error) {
    add(Severity::kError, error.kind(), error.problem());
  }
}

// Also takes the page's size from the image if the data did not give it.
void PageChecker::check_image(Page& page) {
  const int width = page.width, height = page.height;
  try {
    const ImageInfo info = read_page_image_info(page);
    if (info.orientation != 1) add(Severity::kWarning, "image-turned", turned_image_problem(page, info));
    if (width > 0 && options_.box_format == BoxFormat::kPixel && (width != info.width || height != info.height)) {
      add(Severity::kWarning, "image-size",
          {.what = "a page's width and height differ from its image's",
           .where = place(page),
           .found = fmt::format("{} x {}", width, height),
           .allowed = fmt::format("{} x {} pixels", info.width, info.height),
           .remedy = width != info.height || height != info.width
                         ? "this is fine if the boxes were measured at the given size; otherwise write the image's size"
                     : info.orientation != 1 ? "rotate boxes that were measured before the image was rotated"
                                             : "swap width and height"});
    }
    const std::uint64_t most = options_.most_decoding_bytes;
    if (options_.decode_images && (most == 0 || info.decode_bytes <= most)) {
      const ByteGate::Pass pass(decoding_, info.decode_bytes);
      check_pixels(page, block_->findings);
    }
  } catch (const ImageError& error) {
    Problem problem = error.problem();
    // open_image knows only the file, so the page is added here.
    if (problem.where == page.image.string()) problem.where = fmt::format("{}, image {}", place(page), problem.where);
    add(Severity::kError, error.kind(), std::move(problem));
  }
}

void PageChecker::check_page_boxes(const Page& page) {
  const bool pixels = options_.box_format == BoxFormat::kPixel;
  if (pixels && page.width == 0) return;  // the size cannot be found, which is reported already
  const BoxReading reading = read_boxes(page, options_.box_format);
  check_boxes(page, options_.box_format, reading, block_->findings);
  if (page.width > 0) block_->boxes.include(page);
  constexpr int kFewestPairs = 8, kOneIn = 5;
  if (reading.neighbours < kFewestPairs || reading.habit == BoxHabit::kConstant) return;
  if (kOneIn * reading.shared >= reading.neighbours) {
    ++block_->counts.segment_pages;
  } else if (reading.shared == 0) {
    ++block_->counts.word_pages;
    block_->word_level.add(
        Severity::kWarning, "word-boxes",
        {.what = options_.segments_known ? "a page has word boxes, though its file says which words form a segment"
                                         : "a page has word boxes, but most pages have segment boxes",
         .where = place(page),
         .found = counted(page.words.size(), "word") + ", no two in a row with the same box",
         .allowed = "all words of a line or field with the box of that line or field, as LayoutLMv3 was trained",
         .remedy =
             options_.segments_known ? "pass --segment-boxes" : "write segment-level boxes for all pages, or none"});
  }
}

void PageChecker::check_labels(const Page& page, bool is_whole) {
  if (!options_.words_labelled) {
    if (is_unread(page)) return;
    if (page.target != nullptr) {
      ++block_->counts.target_pages;
      block_->counts.targets += page.target->size();
      block_->counts.positives += page.target->positives();
    }
    if (options_.targets) options_.targets->check(page, options_.labels_required, block_->findings, block_->labels);
    return;
  }
  if (page.labels.empty()) {
    if (!options_.labels_required || page.words.empty()) return;
    std::string remedy = "label the page, or omit it";
    if (options_.remedy_without_labels) remedy = options_.remedy_without_labels(page, std::move(remedy));
    add(Severity::kError, "labels-missing",
        {.what = "a page has no labels",
         .where = place(page),
         .allowed = "`labels` or `ner_tags`, one per word",
         .remedy = std::move(remedy)});
    return;
  }
  for (std::size_t word = 0; word < page.labels.size(); ++word) {
    const std::string& label = page.labels[word];
    if (label.empty()) {
      if (!is_whole) continue;  // perhaps the reader has reported why
      add(Severity::kInfo, "word-unlabelled",
          {.what = "a word's label is not known (null or -100): it is neither learnt nor scored",
           .where = place(page, word),
           .allowed = "labels of all words, or of those that are known",
           .remedy = "label the word, if it should be learnt"});
      continue;
    }
    block_->counts.labelled_words += label != "O" ? 1U : 0U;
    ++block_->labels[label];
    if (options_.labels != nullptr && !options_.labels->find(label)) {
      add(Severity::kError, "label-unknown", unknown_label_problem(page, word, *options_.labels));
    } else {
      check_scheme(page, word);
    }
  }
  check_tag_order(page);
}

// In a label set that mixes schemes, the odd names are those without a tag, and L- and U- beside E- and S-.
void PageChecker::check_scheme(const Page& page, std::size_t word) {
  if (scheme_ != LabelScheme::kMixed) return;
  const std::string& label = page.labels[word];
  const LabelScheme own = label_scheme(std::span(&label, 1));
  if (own != LabelScheme::kPlain && own != LabelScheme::kBilou) return;
  add(Severity::kError, "label-scheme", mixed_labels_problem(place(page, word), label));
}

// In BIOES and BILOU, B- and I- must be followed by I-, E- or L- of their type, and nothing else may be. In IOB an
// entity may begin with I- if the data is IOB1, which only all pages together show.
// True if the word's label is allowed; any other label is reported by itself and has no order.
bool PageChecker::is_known(const std::string& label) const {
  return !label.empty() && (options_.labels == nullptr || options_.labels->find(label));
}

void PageChecker::check_tag_order(const Page& page) {
  constexpr const char* kEnd = "label-scheme";
  constexpr std::uint64_t kEndsKept = 8;  // of a block
  const LabelScheme scheme = options_.labels != nullptr ? scheme_ : label_scheme(page.labels);
  if (scheme == LabelScheme::kIob) return check_iob_order(page);
  if (scheme != LabelScheme::kIobes && scheme != LabelScheme::kBilou) return;
  const std::vector<std::string>& names = options_.labels != nullptr ? options_.labels->names() : page.labels;
  const auto begins = [scheme](const std::string& name) {
    return std::string_view("BSU").find(split_label(name, scheme).tag) != std::string_view::npos;
  };
  if (std::ranges::none_of(names, begins)) return;  // IOE1 and IOE2 have no tag for a beginning
  LabelParts before;
  bool known = true;  // whether the word before has a label
  for (std::size_t word = 0; word <= page.labels.size(); ++word) {
    const bool at_end = word == page.labels.size();
    if (!at_end && !is_known(page.labels[word])) {
      known = false;
      continue;
    }
    const LabelParts now = at_end ? LabelParts{} : split_label(page.labels[word], scheme);
    if (std::string_view("ESLU").find(now.tag) != std::string_view::npos && block_->ends.count(kEnd) < kEndsKept) {
      block_->ends.add(Severity::kWarning, kEnd,
                       {.what = "a label has a tag that only a few labels have",
                        .where = place(page, word),
                        .found = printable(page.labels[word]),
                        .allowed = "B-, I- or O",
                        .remedy = "write B- for S- and U-, I- for E- and L-"});
    }
    const bool open = known && (before.tag == 'B' || before.tag == 'I');
    const bool goes_on = now.tag == 'I' || now.tag == 'E' || now.tag == 'L';
    if (known && (goes_on ? !open || before.type != now.type : open)) {
      const std::string last = word == 0 ? "the beginning" : page.labels[word - 1];
      const bool closing_is_e = scheme == LabelScheme::kIobes;
      block_->order_with_ends.add(
          Severity::kWarning, "tag-order",
          {.what = fmt::format("a label cannot follow the one before it in {}", scheme_name(scheme)),
           .where = place(page, at_end ? word - 1 : word),
           .found = printable(fmt::format("{} after {}", at_end ? "the page's end" : page.labels[word], last)),
           .allowed = open ? printable(fmt::format("I-{0} or {1}-{0}", before.type, closing_is_e ? 'E' : 'L'))
                           : fmt::format("O, B- or {}-", closing_is_e ? 'S' : 'U'),
           .remedy = fmt::format("correct the label; a single word has {}-", closing_is_e ? 'S' : 'U')});
    }
    before = now;
    known = true;
  }
}

void PageChecker::check_iob_order(const Page& page) {
  std::optional<LabelParts> before = LabelParts{};
  for (std::size_t word = 0; word < page.labels.size(); ++word) {
    const std::string& label = page.labels[word];
    if (!is_known(label)) {
      before.reset();
      continue;
    }
    const LabelParts now = split_label(label, LabelScheme::kIob);
    const bool continues = before && before->tag != 'O' && before->type == now.type;
    if (now.tag == 'B' && !continues) ++block_->counts.begun_with_b;
    if (now.tag == 'I' && before && !continues) {
      block_->inside_first.add(
          Severity::kWarning, "tag-order",
          {.what = "an entity begins with an I- label",
           .where = place(page, word),
           .found = printable(fmt::format("{} after {}", label, word == 0 ? "the beginning" : page.labels[word - 1])),
           .allowed = printable(fmt::format("B-{} first", now.type)),
           .remedy = "label the first word of each entity with B-"});
    }
    before = now;
  }
}

void PageChecker::check_tokens(const Page& page, bool is_skipped) {
  if (options_.tokens == nullptr) return;
  cut_windows(tokens_, options_.windows, windows_);
  CheckCounts& counts = block_->counts;
  counts.tokens += tokens_.ids.size();
  const std::uint64_t behind_prompts = windows_behind_prompts(page);
  if (behind_prompts == 0 && options_.targets) {
    options_.targets->check_windows({.page = page, .tokens = tokens_, .windows = windows_}, options_.labels_required,
                                    block_->findings);
  }
  counts.windows += behind_prompts > 0 ? behind_prompts : windows_.size() - idle_windows(page);
  counts.longest_page_tokens = std::max<std::uint64_t>(counts.longest_page_tokens, tokens_.ids.size());
  // The parts of a text are its prompt and what follows: either may be empty.
  const bool says_nothing = page.is_text && tokens_.ids.empty();
  for (std::size_t word = 0; word < tokens_.first_of_word.size(); ++word) {
    if (tokens_.first_of_word[word] != kNoWord || (page.is_text && (!says_nothing || word > 0))) continue;
    add(Severity::kWarning, "word-without-tokens",
        {.what = page.is_text ? "a text has no tokens, so there is nothing to learn of it"
                              : "a word has no tokens: it is ignored in training and predicted as O",
         .where = place(page, word),
         .found = in_quotes(page.words[word]),
         .allowed = "some text",
         .remedy = page.is_text ? "omit the line" : "remove empty words from the data"});
  }
  for (std::size_t token = 0; token < tokens_.ids.size() && options_.vocab_size > 0; ++token) {
    const std::int32_t id = tokens_.ids[token];
    if (id >= 0 && id < options_.vocab_size) continue;
    add(Severity::kError, "token-outside",
        {.what = "a word has a token outside the model's vocabulary",
         .where = place(page, static_cast<std::size_t>(tokens_.words[token])),
         .found = fmt::format("token id {}", id),
         .allowed = fmt::format("0 to {}", options_.vocab_size - 1),
         .remedy = "use the tokenizer that the model was trained with"});
  }
  if (!is_skipped) check_length(page);
}

// Counts the windows of a text that hold a part of its prompt and nothing to learn; a data set leaves them out.
std::size_t PageChecker::idle_windows(const Page& page) {
  if (!options_.targets) return 0;
  std::size_t idle = 0;
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    idle += is_idle(*options_.targets, {.page = page, .tokens = tokens_, .windows = windows_, .index = w}) ? 1U : 0U;
  }
  if (idle == 0) return 0;
  add(Severity::kWarning, "prompt-cut",
      {.what = "a completion is in another window than the beginning of its prompt, and is learnt without it",
       .where = place(page),
       .found =
           fmt::format("{} of {} hold nothing to learn, and are left out", idle, counted(windows_.size(), "window")),
       .allowed = fmt::format("{} for prompt and completion", counted(options_.windows.content(), "token")),
       .remedy = "pass a larger --max-length, or shorten the prompt"});
  return idle;
}

// Returns 0 if the page has no prompts; otherwise `windows_` becomes those behind the prompt that leaves least room.
std::uint64_t PageChecker::windows_behind_prompts(const Page& page) {
  if (!options_.targets) return 0;
  std::uint64_t windows = 0;
  std::size_t items = 0;
  try {
    items = options_.targets->items(page);
  } catch (const PageError&) {
    return 0;  // what the page lacks is reported with its targets
  }
  Prompt prompt;
  std::vector<Window> cut, shortest;
  for (std::size_t item = 0; item < items; ++item) {
    prompt.assign(tokens_, item, options_.tokens->encoder());
    if (prompt.ids.empty()) return 0;
    if (const std::optional<WindowOptions> room = prompt.room(options_.windows)) {
      cut_windows(tokens_, *room, cut);
      windows += cut.size();
      if (shortest.empty() || cut.back().end < shortest.back().end) shortest = cut;
      options_.targets->check_windows({.page = page, .tokens = tokens_, .windows = cut, .item = item},
                                      options_.labels_required, block_->findings);
    } else {
      add(Severity::kError, "prompt-too-long", prompt_too_long_problem(page, item, prompt, options_.windows));
    }
  }
  if (!shortest.empty()) windows_ = std::move(shortest);
  return windows;
}

void PageChecker::check_length(const Page& page) {
  const auto is_kept = [this](std::int32_t first) { return first != kNoWord && first < windows_.back().end; };
  if (!page.words.empty() && options_.labels_required && options_.words_labelled) {
    for (const Window& window : windows_) {
      // A word's first token carries its label.
      const auto begins = [&](std::int32_t first) { return first >= window.begin && first < window.end; };
      if (std::ranges::any_of(tokens_.first_of_word, begins)) continue;
      add(Severity::kWarning, "window-ignored",
          {.what = "a window has no labels, so training on it is useless",
           .where = place(page),
           .found = fmt::format("tokens {} to {}, in which no word begins", window.begin, window.end),
           .allowed = "at least one word that begins there",
           .remedy = "split words that are longer than a window"});
    }
  }
  const bool is_cut = options_.windows.long_pages == LongPages::kTruncate && !windows_.empty() &&
                      static_cast<std::size_t>(windows_.back().end) < tokens_.ids.size();
  if (!is_cut && tokens_.ids.size() <= static_cast<std::size_t>(options_.windows.content())) return;
  const auto lost = static_cast<std::uint64_t>(std::ranges::count_if(
      tokens_.first_of_word, [&](std::int32_t first) { return first != kNoWord && !is_kept(first); }));
  switch (options_.windows.long_pages) {
    case LongPages::kRefuse:
      return add(Severity::kError, "page-too-long", page_too_long_problem(page, tokens_.ids.size(), options_.windows));
    case LongPages::kTruncate:
      if (page.is_text) return check_truncated_text(page);
      if (lost == 0) return;
      block_->counts.lost_words += lost;
      return add(Severity::kWarning, "words-lost",
                 {.what = "a page is truncated",
                  .where = place(page),
                  .found = fmt::format("{} of {} lost", lost, counted(page.words.size(), "word")),
                  .allowed = counted(windows_.back().end, "token"),
                  .remedy = "split long pages into windows instead: omit --truncate"});
    case LongPages::kWindows:
      return add(
          Severity::kInfo, "long-page",
          {.what = fmt::format("a {} is longer than a window of the model and is split into windows",
                               page.is_text ? "text" : "page"),
           .where = place(page),
           .found = fmt::format("{}, {}", counted(tokens_.ids.size(), "token"), counted(windows_.size(), "window"))});
  }
}

// A running text has no words to count, so its tokens are counted, and the learnt part may begin late in it.
void PageChecker::check_truncated_text(const Page& page) {
  const auto read = static_cast<std::size_t>(windows_.back().end);
  const std::uint64_t lost = tokens_.ids.size() - read;
  block_->counts.lost_tokens += lost;
  const PageWindow beginning{.page = page, .tokens = tokens_, .windows = windows_};
  if (options_.targets && options_.targets->learnt_tokens(beginning) == 0) {
    return add(Severity::kError, "completion-cut", completion_cut_problem(page, read, tokens_.ids.size()));
  }
  add(Severity::kWarning, "tokens-lost",
      {.what = "a text is truncated",
       .where = place(page),
       .found = fmt::format("{} of {} lost", lost, counted(tokens_.ids.size(), "token")),
       .allowed = counted(options_.windows.content(), "token"),
       .remedy = "cut long texts into windows instead: omit --truncate"});
}

}  // namespace plimsoll
