#include "cli/document_lines.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace plimsoll {

std::size_t DocumentLines::bytes(const PageSizes& sizes, std::size_t labels) {
  // A word that is a field by itself, with boxes, as values and as text; a document has its fields twice. The numbers
  // are measured, and a test of predict compares them with its resident set.
  constexpr std::size_t kWord = 1800, kScore = 120, kFew = kMiB;
  const std::size_t all = std::max(sizes.page_words, 2 * sizes.document_words) * (kWord + labels * kScore);
  return all < kFew ? 0 : all;
}

void DocumentLines::add(const Page& page, nlohmann::json line) {
  if (page.document != document_) finish();
  document_ = page.document;
  if (document_.empty()) return write_(line);
  pages_.push_back(std::move(line));
}

void DocumentLines::finish() {
  if (pages_.empty()) return;
  // The fields of all pages, each with the number of its page.
  nlohmann::json fields = nlohmann::json::array();
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    for (nlohmann::json field : pages_[page].value("fields", nlohmann::json::array())) {
      field["page"] = page;
      fields.push_back(std::move(field));
    }
  }
  const nlohmann::json line = {{"document", document_},
                               {"fields", std::move(fields)},
                               {"pages", std::exchange(pages_, nlohmann::json::array())}};
  write_(line);
}

}  // namespace plimsoll
