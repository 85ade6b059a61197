#include "data/check.h"

#include <fmt/format.h>

#include <functional>
#include <unordered_map>

#include "data/dataset.h"

namespace plimsoll {
namespace {

// One check looks at one page and adds what it finds; a new kind of fault is one more member here.
class PageChecker {
 public:
  PageChecker(const PageSource& source, const CheckOptions& options) : source_(source), options_(options) {}

  CheckReport run() {
    for (std::size_t i = 0; i < source_.size(); ++i) {
      try {
        Page page = source_.read(i);
        ++report_.pages;
        report_.words += page.words.size();
        check_id(page, i);
        check_words(page);
        check_image(page);
        check_boxes(page);
        check_labels(page);
        check_tokens(page);
      } catch (const PageError& error) {
        add(Severity::kError, error.kind(), error.problem());
      } catch (const DataError& error) {
        add(Severity::kError, "page-unreadable", error.problem());
      }
    }
    return std::move(report_);
  }

 private:
  void add(Severity severity, std::string_view kind, Problem problem) {
    report_.findings.add(severity, kind, std::move(problem));
  }

  void check_id(const Page& page, std::size_t index) {
    // 64 bits of hash a page; a chance meeting of two among a million pages is one in 36 million, and a warning.
    const auto [first, is_new] = ids_.emplace(std::hash<std::string>()(page.id), index);
    if (is_new) return;
    add(Severity::kWarning, "duplicate-id",
        {.what = "two pages have the same id",
         .where = place(page),
         .found = fmt::format("the id of page {} of the file", first->second + 1),
         .allowed = "an id for each page",
         .remedy = "number the pages; predictions are told apart by id"});
  }

  void check_words(const Page& page) {
    if (!page.words.empty()) return;
    add(Severity::kError, "empty-page",
        {.what = "a page has no words",
         .where = place(page),
         .found = "0 words",
         .allowed = "at least one",
         .remedy = "leave the page out, or read its text first (OCR)"});
  }

  // Also completes the page's size from the image where the data did not give it.
  void check_image(Page& page) {
    const int width = page.width, height = page.height;
    try {
      const ImageInfo info = read_page_image_info(page);
      if (width > 0 && options_.box_format == BoxFormat::kPixel && (width != info.width || height != info.height)) {
        add(Severity::kWarning, "image-size",
            {.what = "a page's width and height are not its image's",
             .where = place(page),
             .found = fmt::format("{} x {}", width, height),
             .allowed = fmt::format("{} x {} pixels", info.width, info.height),
             .remedy = "fine if boxes were measured at the size given; otherwise "
                       "write the image's size"});
      }
      if (!options_.decode_images || !decode_image(page.image).damaged()) return;
      add(Severity::kWarning, "image-damaged",
          {.what = "a page's image holds bad data, but can be read",
           .where = fmt::format("{}, image {}", place(page), page.image.string()),
           .remedy = "look at it; save or copy it again"});
    } catch (const ImageError& error) {
      Problem problem = error.problem();
      // decode_image knows the file only.
      if (problem.where == page.image.string()) problem.where = fmt::format("{}, image {}", place(page), problem.where);
      add(Severity::kError, error.kind(), std::move(problem));
    }
  }

  void check_boxes(const Page& page) {
    const bool pixels = options_.box_format == BoxFormat::kPixel;
    if (pixels && page.width == 0) return;  // its image cannot be read, which has been said
    for (std::size_t word = 0; word < page.boxes.size(); ++word) {
      const Box& box = page.boxes[word];
      if (!box_on_page(scale_box(box, page.width, page.height, options_.box_format))) {
        add(Severity::kError, "box-outside", box_outside_problem(page, word, options_.box_format));
      } else if (box[2] < box[0] || box[3] < box[1]) {
        add(Severity::kWarning, "box-inverted",
            {.what = "a box's right or bottom edge lies before its left or top one",
             .where = place(page, word),
             .found = to_string(box),
             .allowed = "[left, top, right, bottom]",
             .remedy = "write boxes as corners, not as x, y, width, height"});
      }
    }
  }

  void check_labels(const Page& page) {
    if (page.labels.empty()) {
      if (!options_.labels_required || page.words.empty()) return;
      add(Severity::kError, "labels-missing",
          {.what = "a page has no labels",
           .where = place(page),
           .allowed = "`labels` or `ner_tags`, one per word",
           .remedy = "label the page, or leave it out"});
      return;
    }
    for (std::size_t word = 0; word < page.labels.size(); ++word) {
      report_.labelled_words += page.labels[word] != "O" ? 1U : 0U;
      if (page.labels[word].empty()) {
        add(Severity::kError, "label-unknown",
            {.what = "a label has no name",
             .where = place(page, word),
             .found = "\"\"",
             .allowed = "a name such as O or B-TOTAL",
             .remedy = "name the label; a word outside every entity has O"});
        continue;
      }
      if (options_.labels == nullptr || options_.labels->find(page.labels[word])) continue;
      add(Severity::kError, "label-unknown", unknown_label_problem(page, word, *options_.labels));
    }
  }

  void check_tokens(const Page& page) {
    if (options_.encoder == nullptr) return;
    tokens_.assign(page, *options_.encoder);
    cut_windows(tokens_, options_.windows, windows_);
    report_.tokens += tokens_.ids.size();
    report_.windows += windows_.size();
    report_.longest_page_tokens = std::max<std::uint64_t>(report_.longest_page_tokens, tokens_.ids.size());
    std::size_t lost = 0;
    for (std::size_t word = 0; word < tokens_.first_of_word.size(); ++word) {
      lost += tokens_.first_of_word[word] >= windows_.back().end ? 1U : 0U;
      if (tokens_.first_of_word[word] != kNoWord) continue;
      add(Severity::kWarning, "word-without-tokens",
          {.what = "a word has no tokens: it is not trained on, and predicted "
                   "as O",
           .where = place(page, word),
           .remedy = "leave empty words out of the data"});
    }
    if (tokens_.ids.size() <= static_cast<std::size_t>(options_.windows.content())) return;
    switch (options_.windows.long_pages) {
      case LongPages::kRefuse:
        add(Severity::kError, "page-too-long", page_too_long_problem(page, tokens_.ids.size(), options_.windows));
        break;
      case LongPages::kTruncate:
        if (lost == 0) break;
        add(Severity::kWarning, "words-lost",
            {.what = "a page is cut short",
             .where = place(page),
             .found = fmt::format("{} of {} words lost", lost, page.words.size()),
             .remedy = "let long pages be cut into windows instead"});
        break;
      case LongPages::kWindows:
        add(Severity::kInfo, "long-page",
            {.what = "a page is longer than the model sees at once, and is cut into windows",
             .where = place(page),
             .found = fmt::format("{} tokens, {} windows", tokens_.ids.size(), windows_.size())});
        break;
    }
  }

  const PageSource& source_;
  const CheckOptions& options_;
  CheckReport report_;
  std::unordered_map<std::size_t, std::size_t> ids_;  // hash of an id -> first page that has it
  PageTokens tokens_;
  std::vector<Window> windows_;
};

}  // namespace

CheckReport check_pages(const PageSource& source, const CheckOptions& options) {
  return PageChecker(source, options).run();
}

}  // namespace plimsoll
