// Pictures of pages with what was found on them, in a directory: `predict --draw`, `eval --worst N --draw`.
//
//   PagePictures pictures("found", "predict");
//   options.memory.drawing_bytes = PagePictures::bytes(*pages);   // the plan counts what drawing needs
//   pictures.draw(predictions, page, format);
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include "data/page_source.h"
#include "tasks/task.h"

namespace plimsoll {

class PagePictures {
 public:
  // Makes the directory, which option --draw of `command` names.
  PagePictures(std::filesystem::path directory, const std::string& command);

  // Returns the bytes that drawing the largest of the pages takes; it reads every image's header.
  static std::size_t bytes(const PageSource& pages);
  // Writes PAGE.png; a page without a size is given that of its image.
  void draw(const Predictions& predictions, Page& page, BoxFormat format);

 private:
  std::filesystem::path directory_;
  std::set<std::string> names_;  // that are taken
};

}  // namespace plimsoll
