#include "data/data_set_checks.h"

#include <fmt/format.h>

#include <set>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "base/lower_case.h"
#include "base/nearest.h"

namespace plimsoll {
namespace {

// If most pages share boxes, those that do not are the exceptions.
bool segments_are_usual(const CheckCounts& counts) { return counts.segment_pages >= 4 * counts.word_pages; }

std::vector<std::string> names_of(const std::map<std::string, std::uint64_t>& labels) {
  std::vector<std::string> names;
  for (const auto& [label, count] : labels) names.push_back(label);
  return names;
}

std::string entity_of(const std::string& label, LabelScheme scheme) {
  return label == "O" ? label : std::string(split_label(label, scheme).type);
}

std::set<std::string> entities_in(const std::map<std::string, std::uint64_t>& labels, LabelScheme scheme) {
  std::set<std::string> entities;
  for (const auto& [label, count] : labels) entities.insert(entity_of(label, scheme));
  return entities;
}

std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

// Returns the name in small letters, without white space around it.
std::string plain(const std::string& name) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = name.find_first_not_of(kSpace);
  return begin == std::string::npos ? std::string()
                                    : lower_case(name.substr(begin, name.find_last_not_of(kSpace) + 1 - begin));
}

// Returns how many labels mark ends of entities, if they are so few beside those that mark beginnings that the others
// are of a scheme without ends: each entity of BIOES that has several words has both. Otherwise returns 0.
std::uint64_t few_ends(const std::map<std::string, std::uint64_t>& labels) {
  constexpr std::uint64_t kTimes = 50;
  std::uint64_t ends = 0, beginnings = 0;
  for (const auto& [label, count] : labels) {
    if (label == "O" || label.empty()) continue;
    if (std::string_view("ESLU").find(label[0]) != std::string_view::npos) ends += count;
    if (label[0] == 'B') beginnings += count;
  }
  return kTimes * ends <= beginnings ? ends : 0;
}

constexpr std::size_t kShort = 5;  // letters below which a name needs better evidence

// True for "TOTLA" beside "TOTAL", but not for names that a number tells apart.
bool may_be_misspelt(const std::string& name, const std::string& known) {
  constexpr std::size_t kShortest = 3, kLong = 8;
  if (plain(name) == plain(known)) return false;  // that is said by itself
  if (name.size() < kShortest || without_digits(name) == without_digits(known)) return false;
  // Short words are often alike: RATE is not DATE, but DAET and DAT are.
  std::string letters = name, known_letters = known;
  std::ranges::sort(letters), std::ranges::sort(known_letters);
  if (name.size() < kShort && name.size() == known.size() && letters != known_letters) return false;
  return edit_distance(name, known) <= (name.size() < kLong ? 1U : 2U);
}

// Pages with equal hashes are compared after they have been read again.
bool is_same_content(const Page& a, const Page& b) { return a.words == b.words && a.boxes == b.boxes; }

bool asks_the_same(const Page& a, const Page& b) {
  const auto asked = [](const Page& page) { return page.target == nullptr ? std::string() : page.target->asked(); };
  return asked(a) == asked(b);
}

const char* content_of(const Page& page) { return page.is_text ? "text" : "words and boxes"; }

Page read_again(const PageSource& source, std::size_t index) {
  PageFaults faults;
  return source.read(index, &faults);
}

}  // namespace

void CheckCounts::add(const CheckCounts& other) {
  pages += other.pages;
  texts += other.texts;
  words += other.words;
  labelled_words += other.labelled_words;
  target_pages += other.target_pages;
  targets += other.targets;
  positives += other.positives;
  begun_with_b += other.begun_with_b;
  tokens += other.tokens;
  windows += other.windows;
  longest_page_tokens = std::max(longest_page_tokens, other.longest_page_tokens);
  lost_words += other.lost_words;
  lost_tokens += other.lost_tokens;
  segment_pages += other.segment_pages;
  word_pages += other.word_pages;
}

void BoxExtent::include(const Page& page) {
  least_width = std::min(least_width, page.width);
  least_height = std::min(least_height, page.height);
  for (const Box& box : page.boxes) {
    // std::max ignores NaN as its second argument.
    right = std::max(right, std::max(box[0], box[2]));
    bottom = std::max(bottom, std::max(box[1], box[3]));
  }
  boxes += page.boxes.size();
  constexpr int kSmall = 900;
  if (page.boxes.empty() || std::min(page.width, page.height) >= kSmall) return;
  const auto ends_within = [&page](const Box& box) {
    return !(std::max(box[0], box[2]) > page.width || std::max(box[1], box[3]) > page.height);
  };
  ++small_pages;
  small_pages_filled += std::ranges::all_of(page.boxes, ends_within) ? 1U : 0U;
}

void BoxExtent::include(const BoxExtent& other) {
  right = std::max(right, other.right);
  bottom = std::max(bottom, other.bottom);
  least_width = std::min(least_width, other.least_width);
  least_height = std::min(least_height, other.least_height);
  boxes += other.boxes;
  small_pages += other.small_pages;
  small_pages_filled += other.small_pages_filled;
}

void DataSetChecker::add(const BlockReport& block) {
  report_.add(block.counts);
  report_.findings.merge(block.findings);
  word_level_.merge(block.word_level);
  inside_first_.merge(block.inside_first);
  order_with_ends_.merge(block.order_with_ends);
  ends_.merge(block.ends);
  boxes_.include(block.boxes);
  for (const auto& [label, count] : block.labels) report_.labels[label] += count;
  report_.bad_pages.insert(report_.bad_pages.end(), block.bad_pages.begin(), block.bad_pages.end());
  for (const PageFacts& page : block.pages) {
    check_twice(page);
    if (page.picture != 0) report_.pictures.emplace_back(page.picture, page.index);
    // Pages of a document follow one another.
    if (page.document == 0 || page.document != document_) document_size_ = {};
    document_size_ += page.size;
    document_ = page.document;
    PageSizes& sizes = report_.sizes;
    sizes.all += page.size;
    sizes.page.include(page.size);
    if (document_ != 0) sizes.document.include(document_size_);
  }
}

void DataSetChecker::check_twice(const PageFacts& page) {
  const auto [id, new_id] = ids_.emplace(page.id, page.index);
  const bool known = page.content != 0;
  if (known) contents_.emplace(page.content, page.index);
  const auto [same, is_new] = known ? asked_.emplace(page.asked, page.index) : std::pair(asked_.end(), true);
  if (new_id && is_new) return;
  const Page here = read_again(source_, page.index);
  if (!new_id) {
    const Page first = read_again(source_, id->second);
    if (first.id == here.id) {
      report_.findings.add(options_.labels_required ? Severity::kError : Severity::kWarning, "duplicate-id",
                           {.what = "two pages have the same id",
                            .where = place(here),
                            .found = fmt::format("the id of {}", place(first)),
                            .allowed = "an id for each page",
                            .remedy = "number the pages, or omit the second; ids must be unique"});
    }
  }
  if (!is_new) {
    const Page first = read_again(source_, same->second);
    if (is_same_content(first, here) && asks_the_same(first, here)) {
      report_.findings.add(Severity::kWarning, "duplicate-page",
                           {.what = here.is_text ? "two texts are the same" : "two pages have the same words and boxes",
                            .where = place(here),
                            .found = fmt::format("the {} of {}", content_of(first), place(first)),
                            .allowed = here.is_text ? "each text once" : "each page once",
                            .remedy = "omit one of them; otherwise they count twice"});
    }
  }
}

CheckReport DataSetChecker::finish() {
  check_labels();
  if (options_.words_labelled) check_scheme();
  check_targets();
  check_box_habits();
  check_tokens();
  report_.contents.assign(contents_.begin(), contents_.end());
  for (auto* const hashes : {&report_.contents, &report_.pictures}) std::ranges::sort(*hashes);
  return std::move(report_);
}

// Classes of pages are whole names: "B-grade" has no tag.
LabelScheme DataSetChecker::scheme_of(const std::vector<std::string>& names) const {
  return options_.words_labelled ? label_scheme(names) : LabelScheme::kPlain;
}

void DataSetChecker::check_labels() {
  constexpr std::uint64_t kFewestWords = 100, kFewestPages = 20, kDominantPercent = 95;
  const bool of_words = options_.words_labelled;
  const char* const unit = of_words ? "word" : "page";
  std::uint64_t all = 0;
  for (const auto& [label, count] : report_.labels) all += count;
  check_case();
  if (all < (of_words ? kFewestWords : kFewestPages)) return;  // too few to judge labels by
  const std::string where = listed(source_.paths());
  if (options_.labels != nullptr) {
    const LabelScheme scheme = scheme_of(options_.labels->names());
    const std::set<std::string> seen = entities_in(report_.labels, scheme);
    std::set<std::string> said;
    for (const std::string& label : options_.labels->names()) {
      const std::string entity = entity_of(label, scheme);
      // "I-DATE" alone may be missing, because every date may be one word.
      if (seen.count(entity) > 0 || !said.insert(entity).second) continue;
      report_.findings.add(Severity::kWarning, "label-unused",
                           {.what = "a label of the label set never occurs",
                            .where = where,
                            .found = fmt::format("no {} labelled {} among {}", unit, label, all),
                            .allowed = "examples of every label",
                            .remedy = "add pages that have it, or remove it from the label set"});
    }
  }
  check_spelling();
  for (const auto& [label, count] : report_.labels) {
    if (100 * count <= kDominantPercent * all) continue;
    report_.findings.add(
        Severity::kWarning, "class-dominant",
        {.what = fmt::format("nearly all {}s have the same label", unit),
         .where = where,
         .found = fmt::format("{} on {:.1f} % of {}", label,
                              100.0 * static_cast<double>(count) / static_cast<double>(all), counted(all, unit)),
         .allowed = fmt::format("at most {} %", kDominantPercent),
         .remedy = "check that labels were read correctly; use F1 per label, because accuracy is meaningless here"});
  }
}

std::map<std::string, std::uint64_t> DataSetChecker::entity_counts() const {
  const LabelScheme scheme =
      scheme_of(options_.labels != nullptr ? options_.labels->names() : names_of(report_.labels));
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [label, count] : report_.labels) counts[entity_of(label, scheme)] += count;
  return counts;
}

// A misspelt label would become a class of its own in a new head.
void DataSetChecker::check_case() {
  const std::map<std::string, std::uint64_t> counts = entity_counts();
  std::map<std::string, std::string> in_small_letters;
  for (const auto& [name, count] : counts) {
    const auto [other, added] = in_small_letters.emplace(plain(name), name);
    if (added) continue;
    const std::uint64_t others = counts.at(other->second);
    report_.findings.add(Severity::kWarning, "label-misspelt",
                         {.what = "two labels differ only in case or surrounding white space",
                          .where = listed(source_.paths()),
                          .found = fmt::format("{} ({}) and {} ({})", in_quotes(other->second), counted(others, "time"),
                                               in_quotes(name), counted(count, "time")),
                          .allowed = "one spelling of each label",
                          .remedy = "write both alike, unless they are meant to differ"});
  }
}

void DataSetChecker::check_spelling() {
  constexpr std::uint64_t kMost = 5, kTimes = 20;
  constexpr std::uint64_t kMostOfShort = 2, kTimesOfShort = 30;
  const std::map<std::string, std::uint64_t> counts = entity_counts();
  for (const auto& [rare, few] : counts) {
    const bool is_short = rare.size() < kShort;
    if (few > (is_short ? kMostOfShort : kMost)) continue;
    for (const auto& [known, many] : counts) {
      if (many < (is_short ? kTimesOfShort : kTimes) * few || !may_be_misspelt(rare, known)) continue;
      report_.findings.add(Severity::kWarning, "label-misspelt",
                           {.what = "a rare label is spelt nearly like a usual one",
                            .where = listed(source_.paths()),
                            .found = fmt::format("{} ({}), beside {} ({})", in_quotes(rare), counted(few, "time"),
                                                 in_quotes(known), counted(many, "time")),
                            .allowed = "one spelling of each label",
                            .remedy = fmt::format("correct it to {}, unless it is meant", known)});
      break;
    }
  }
}

// With errors in the data, it is unknown what there is to learn.
void DataSetChecker::check_targets() {
  // A model could learn nothing but O from words that all have it.
  if (options_.words_labelled && options_.labels_required && report_.labels.contains("O") &&
      report_.labels.size() == 1 && report_.findings.count(Severity::kError) == 0) {
    report_.findings.add(Severity::kWarning, "nothing-to-learn",
                         {.what = "all words are labelled O, so there is nothing to learn",
                          .where = listed(source_.paths()),
                          .found = counted(report_.labels.at("O"), "word"),
                          .allowed = "labels other than O",
                          .remedy = "check that the labels are those of these words"});
  }
  if (!options_.targets || !options_.targets_known || !options_.labels_required || report_.target_pages == 0) return;
  if (report_.findings.count(Severity::kError) > 0) return;
  if (std::optional<Problem> problem = options_.targets->nothing_to_learn(report_)) {
    problem->where = listed(source_.paths());
    report_.findings.add(Severity::kWarning, "nothing-to-learn", std::move(*problem));
  }
}

void DataSetChecker::check_scheme() {
  const std::vector<std::string> names =
      options_.labels != nullptr ? options_.labels->names() : names_of(report_.labels);
  const std::string where = listed(source_.paths());
  switch (label_scheme(names)) {
    case LabelScheme::kMixed:
      // If the label set is known, each word that has an odd label has already been reported.
      if (report_.findings.count("label-scheme") == 0) {
        const bool in_data = options_.labels == nullptr;
        report_.findings.add(in_data ? Severity::kError : Severity::kWarning, "label-scheme",
                             mixed_labels_problem(where, odd_label(names)));
      }
      return;
    case LabelScheme::kPlain:
      report_.findings.add(Severity::kInfo, "label-scheme",
                           {.what = "the labels have no B- or I-: each name is a separate type, and consecutive "
                                    "words with the same label are one entity",
                            .where = where,
                            .found = in_quotes(odd_label(names))});
      return;
    case LabelScheme::kIob:
      if (report_.begun_with_b > 0 || inside_first_.empty()) break;
      report_.findings.add(
          Severity::kInfo, "label-scheme",
          {.what = "the labels are IOB1: an entity begins with I-, and with B- only where it touches "
                   "another of its type",
           .where = where,
           .found =
               counted(inside_first_.count("tag-order"), "entity that begins", "entities that begin") + " with I-"});
      return;
    case LabelScheme::kIobes:
    case LabelScheme::kBilou:
      if (const std::uint64_t few = few_ends(report_.labels); few > 0 && !ends_.empty()) {
        Finding finding = ends_.sorted().front();
        finding.count = few;  // blocks keep the first places alone
        report_.findings.add(std::move(finding));
        return;
      }
      report_.findings.merge(order_with_ends_);
      break;
  }
  report_.findings.merge(inside_first_);
}

void DataSetChecker::check_box_habits() {
  // On some page words reach the last quarter, and no page is smaller than 1250 pixels.
  constexpr double kFarthest = 1000, kNear = 750;
  constexpr int kLargePage = 1250;
  constexpr std::uint64_t kFewestBoxes = 20;
  const std::string where = listed(source_.paths());
  const bool small = boxes_.right <= kFarthest && boxes_.bottom <= kFarthest;
  const bool reaching = boxes_.right >= kNear && boxes_.bottom >= kNear;
  constexpr std::uint64_t kFewestPages = 10;
  const bool thousandths = options_.box_format == BoxFormat::k1000;
  if (thousandths && boxes_.small_pages >= kFewestPages && boxes_.small_pages == boxes_.small_pages_filled) {
    report_.findings.add(Severity::kWarning, "box-pixels",
                         {.what = "all boxes look like pixels, but thousandths of the page were expected",
                          .where = where,
                          .found = fmt::format("no box beyond its image's own pixels on {} of less than 900",
                                               counted(boxes_.small_pages, "image")),
                          .allowed = "0 to 1000 from edge to edge",
                          .remedy = "omit --box-format 1000 if the boxes are in pixels"});
  }
  if (!thousandths && boxes_.boxes >= kFewestBoxes && small && reaching &&
      std::min(boxes_.least_width, boxes_.least_height) >= kLargePage) {
    report_.findings.add(
        Severity::kWarning, "box-thousandths",
        {.what = "all boxes look like thousandths of the page, 0 to 1000",
         .where = where,
         .found = fmt::format("no box beyond {:g} or below {:g}", boxes_.right, boxes_.bottom),
         .allowed = fmt::format("pixels of pages of {} x {} and more", boxes_.least_width, boxes_.least_height),
         .remedy = "pass --box-format 1000"});
  }
  if (report_.word_pages == 0) return;
  if (options_.segments_known || segments_are_usual(report_)) {
    report_.findings.merge(word_level_);
  } else if (report_.segment_pages == 0) {
    report_.findings.add(Severity::kInfo, "word-boxes",
                         {.what = "every word has a box of its own",
                          .where = where,
                          .found = counted(report_.word_pages, "page"),
                          .allowed = "word boxes, or segment boxes (of lines or fields), on every page",
                          .remedy = "LayoutLMv3 was pretrained with segment boxes and scores higher with them"});
  }
}

void DataSetChecker::check_tokens() {
  // Text that suits the tokenizer has one to three tokens per word.
  constexpr std::uint64_t kFewestWords = 100, kMostTokens = 6;
  if (report_.texts > 0) return;  // a word is a whole text there
  if (report_.words < kFewestWords || report_.tokens <= kMostTokens * report_.words) return;
  const double tokens = static_cast<double>(report_.tokens) / static_cast<double>(report_.words);
  report_.findings.add(Severity::kWarning, "words-shattered",
                       {.what = "words become many tokens each: the tokenizer may not suit the text",
                        .where = listed(source_.paths()),
                        .found = fmt::format("{:.1f} tokens per word", tokens),
                        .allowed = fmt::format("at most {}; one to three are usual", kMostTokens),
                        .remedy = "check the language and the encoding of the text, and that each entry is one word, "
                                  "not a line; or use a model with a tokenizer for the language"});
}

namespace {

// Returns the pages of `b` whose hashes pages of `a` have, with the first of those, in the order of b's pages.
std::vector<std::pair<std::uint32_t, std::uint32_t>> in_both(const PageHashes& a, const PageHashes& b) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> both;
  for (const auto& [hash, page] : b) {
    const auto found = std::ranges::lower_bound(a, std::pair(hash, std::uint32_t{0}));
    if (found != a.end() && found->first == hash) both.emplace_back(page, found->second);
  }
  std::ranges::sort(both);
  return both;
}

}  // namespace

Findings compare_data(const CheckedData& train, const CheckedData& evaluation, const CheckOptions& options) {
  Findings findings(options.places_kept);
  std::set<std::uint32_t> same;
  for (const auto& [held_out, trained] : in_both(train.report.contents, evaluation.report.contents)) {
    const Page here = read_again(evaluation.source, held_out), there = read_again(train.source, trained);
    if (!is_same_content(here, there)) continue;
    same.insert(held_out);
    findings.add(
        Severity::kWarning, "page-in-both",
        {.what = fmt::format("a {} is in both the training and the evaluation data", here.is_text ? "text" : "page"),
         .where = place(here),
         .found = fmt::format("the {} of {}", content_of(there), place(there)),
         .allowed = fmt::format("{} that are not in the training data", here.is_text ? "texts" : "pages"),
         .remedy = "remove it from one of them; otherwise the score is too high"});
  }
  for (const auto& [held_out, trained] : in_both(train.report.pictures, evaluation.report.pictures)) {
    if (same.contains(held_out)) continue;
    const Page here = read_again(evaluation.source, held_out), there = read_again(train.source, trained);
    if (here.image.lexically_normal() != there.image.lexically_normal()) continue;
    findings.add(Severity::kWarning, "picture-in-both",
                 {.what = "a picture is in both the training and the evaluation data, with other words or boxes",
                  .where = place(here),
                  .found = fmt::format("the image of {}", place(there)),
                  .allowed = "pictures that are not in the training data",
                  .remedy = "remove the page from one of them; otherwise the score is too high"});
  }
  std::vector<std::string> names = names_of(train.report.labels);
  for (const std::string& name : names_of(evaluation.report.labels)) names.push_back(name);
  const LabelScheme scheme = options.words_labelled ? label_scheme(names) : LabelScheme::kPlain;
  const std::set<std::string> known = entities_in(train.report.labels, scheme);
  for (const std::string& entity : entities_in(evaluation.report.labels, scheme)) {
    if (known.empty() || known.count(entity) > 0) continue;
    findings.add(Severity::kWarning, "label-untrained",
                 {.what = "a label occurs in the evaluation data but never in the training data",
                  .where = listed(evaluation.source.paths()),
                  .found = entity,
                  .allowed = "labels that occur in the training data",
                  .remedy = "add pages with it to the training data, or split the pages again"});
  }
  const CheckReport &a = train.report, &b = evaluation.report;
  const bool differ = (a.segment_pages > 4 * a.word_pages && b.word_pages > 4 * b.segment_pages) ||
                      (a.word_pages > 4 * a.segment_pages && b.segment_pages > 4 * b.word_pages);
  if (differ) {
    const auto name = [](const CheckReport& report) {
      return report.segment_pages > report.word_pages ? "segment boxes" : "word boxes";
    };
    findings.add(Severity::kWarning, "word-boxes",
                 {.what = "training and evaluation data have different kinds of boxes",
                  .where = listed(evaluation.source.paths()),
                  .found = fmt::format("{}, but training data has {}", name(b), name(a)),
                  .allowed = "the same in both",
                  .remedy = "make the boxes of both in the same way"});
  }
  return findings;
}

}  // namespace plimsoll
