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

void DocumentLines::add(std::uint32_t index, const Page& page, nlohmann::json line) {
  for (; next_ < index; ++next_) add_page(document_of(next_), nullptr);
  next_ = index + 1;
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
  if (std::ranges::all_of(pages_, [](const nlohmann::json& page) { return page.is_null(); })) return pages_.clear();
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
