// CoNLL's lines, in the form used with seqeval: a word and its label, then the predicted label if there is one, and an
// empty line after each page.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "convert/readers.h"
#include "data/label_scheme.h"

namespace plimsoll {
namespace {

constexpr Loss kSpace{"word or label has white space, which becomes _",
                      "words or labels have white space, which becomes _"};
constexpr Loss kEmpty{"word has no text and becomes _", "words have no text and become _"};
constexpr Loss kUnknown{"word's label is not known and becomes O", "words' labels are not known and become O"};
constexpr Loss kUnpredicted{"page has no prediction and is left out", "pages have no prediction and are left out"};
constexpr Loss kOther{"page has classes, questions or links, which CoNLL's lines do not hold",
                      "pages have classes, questions or links, which CoNLL's lines do not hold"};

class ConllWriter final : public PageWriter {
 public:
  explicit ConllWriter(const Writing& writing) : writing_(writing), scheme_(writing.names.scheme()) {}

  void write(const FoundPage& page, const FoundPage* predicted) override {
    const bool compares = !writing_.options.predictions.empty();
    if (compares && predicted == nullptr) return writing_.losses.add(kUnpredicted, page.where);
    if (!page.classes.empty() || page.has_links || page.more.contains("questions")) {
      writing_.losses.add(kOther, page.where);
    }
    const std::vector<std::string> gold = tags(page);
    const std::vector<std::string> found = compares ? tags(*predicted) : std::vector<std::string>();
    std::string text;
    for (std::size_t w = 0; w < page.words.size(); ++w) {
      text += column(page.words[w].text, page) + ' ' + column(gold[w], page);
      if (compares) text += ' ' + column(found[w], page);
      text += '\n';
    }
    if (!text.empty()) writing_.write(text + "\n");
  }

 private:
  // Returns the page's labels; plain names get IOB2's tags.
  std::vector<std::string> tags(const FoundPage& page) const {
    if (page.labels.size() != page.words.size()) {
      throw DataError({.what = "a page has no labels of its words",
                       .where = page.where,
                       .found = "no `labels`",
                       .allowed = "labels of words in the data, or what predict writes of a model for them",
                       .remedy = "convert labelled pages, or run plimsoll predict and convert its output"});
    }
    const auto unknown = static_cast<std::uint64_t>(std::ranges::count(page.labels, std::string()));
    writing_.losses.add(kUnknown, page.where, unknown);
    if (scheme_ != LabelScheme::kPlain) {
      std::vector<std::string> tags = page.labels;
      std::ranges::replace(tags, std::string(), std::string("O"));
      return tags;
    }
    std::vector<std::string> tagged(page.words.size(), "O");
    for (const WordSpan& span : entity_spans(page.labels, scheme_)) {
      for (std::size_t w = span.begin; w < span.end; ++w) tagged[w] = (w == span.begin ? "B-" : "I-") + span.name;
    }
    return tagged;
  }

  std::string column(const std::string& text, const FoundPage& page) const {
    std::string joined;
    const std::vector<std::string> words = words_of(text);
    for (const std::string& word : words) joined += (joined.empty() ? "" : "_") + word;
    if (words.empty()) {
      writing_.losses.add(kEmpty, page.where);
      return "_";
    }
    if (joined != text) writing_.losses.add(kSpace, page.where);
    return joined;
  }

  Writing writing_;
  LabelScheme scheme_;
};

}  // namespace

std::unique_ptr<PageWriter> write_conll(const Writing& writing) { return std::make_unique<ConllWriter>(writing); }

}  // namespace plimsoll
