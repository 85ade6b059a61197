// The lines of `predict`'s output: one per page, or one for consecutive pages of the same document.
//
//   const std::unique_ptr<PageSource> source = open_pages("pages.jsonl", {});
//   DocumentLines lines(*source, [&](const nlohmann::json& line) { file.write(line.dump() + "\n"); });
//   lines.add(7, page, predictions.to_json(page));   // pages before 7 that were not added have no predictions
//   lines.finish();
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/page_source.h"

namespace plimsoll {

class DocumentLines {
 public:
  // `pages` must outlive the lines. `numbers` are those of the pages in their documents, from 0, if pages between them
  // are not in `pages`.
  DocumentLines(const PageSource& pages, std::function<void(const nlohmann::json&)> write,
                std::vector<int> numbers = {})
      : source_(pages), write_(std::move(write)), numbers_(std::move(numbers)) {}

  // Adds the line of a page, by its number in `pages`; numbers ascend. A page between two of a document that was not
  // added leaves null in its place, so that the numbers of the pages behind it are those in the document.
  void add(std::uint32_t index, const Page& page, nlohmann::json line);
  // Writes the last document, after the last page.
  void finish();

 private:
  std::string document_of(std::uint32_t index) const;
  void pad(std::uint32_t index, const std::string& document);
  void add_page(const std::string& document, nlohmann::json line);

  const PageSource& source_;
  std::function<void(const nlohmann::json&)> write_;
  std::vector<int> numbers_;
  std::uint32_t next_ = 0;
  std::string document_;
  nlohmann::json pages_ = nlohmann::json::array();
};

}  // namespace plimsoll
