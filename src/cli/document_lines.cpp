#include "cli/document_lines.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

// A line that cannot be parsed is taken for one of the document around it.
std::string DocumentLines::document_of(std::uint32_t index) const {
  try {
    PageFaults ignored;
    return source_.read(index, &ignored).document;
  } catch (const DataError&) {
    return document_;
  }
}

// Leaves null in the places of pages of the document that are not in the source.
void DocumentLines::pad(std::uint32_t index, const std::string& document) {
  if (index >= numbers_.size() || document.empty()) return;
  std::size_t there = document == document_ ? pages_.size() : 0;
  for (; there < static_cast<std::size_t>(numbers_[index]); ++there) add_page(document, nullptr);
}

void DocumentLines::add(std::uint32_t index, const Page& page, nlohmann::json line) {
  for (; next_ < index; ++next_) {
    const std::string document = document_of(next_);
    pad(next_, document);
    add_page(document, nullptr);
  }
  next_ = index + 1;
  pad(index, page.document);
  add_page(page.document, std::move(line));
}

void DocumentLines::add_page(const std::string& document, nlohmann::json line) {
  if (document != document_) finish();
  document_ = document;
  if (!document_.empty()) {
    pages_.push_back(std::move(line));
  } else if (!line.is_null()) {
    write_(line);
  }
}

void DocumentLines::finish() {
  while (!pages_.empty() && pages_.back().is_null()) pages_.erase(pages_.size() - 1);
  if (pages_.empty()) return;
  // The fields of all pages, each with the number of its page.
  nlohmann::json fields = nlohmann::json::array();
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    if (pages_[page].is_null()) continue;
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
