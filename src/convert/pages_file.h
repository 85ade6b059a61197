// A file of pages, or of `predict`'s lines, read one page after the other.
//
//   PagesFile pages("found.jsonl", {});
//   while (std::optional<FoundPage> page = pages.next()) use(page->words.size());
//
// Pages keep every member of their JSON in FoundPage::more, so that nothing is lost when pages are written again.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convert/found_page.h"
#include "convert/lines.h"

namespace plimsoll {

class PagesFile {
 public:
  // `label_names` is for labels that are numbers; `format` is the unit of boxes.
  PagesFile(const std::filesystem::path& file, std::vector<std::string> label_names,
            BoxFormat format = BoxFormat::kPixel)
      : file_(file), label_names_(std::move(label_names)), format_(format), lines_(file) {}

  // Returns nullopt after the last page. Throws PageError for a page that cannot be read.
  std::optional<FoundPage> next();

 private:
  FoundPage parse(const std::string& json, const std::string& document) const;

  std::filesystem::path file_;
  std::vector<std::string> label_names_;
  BoxFormat format_;
  LineReader lines_;
  std::deque<FoundPage> waiting_{};  // further pages of a line that holds a document
};

}  // namespace plimsoll
