#include "cli/document_lines.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

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
