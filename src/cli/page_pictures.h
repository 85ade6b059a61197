// Pictures of pages with what was found on them, in a directory or in one PDF file: `predict --draw`, `--draw-pdf`,
// `eval --worst N --draw`.
//
//   PagePictures pictures(invocation, "found", "predict");
//   options.memory.drawing_bytes = PagePictures::bytes(*pages);   // the plan counts what drawing needs
//   pictures.draw(predictions, page, format);
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "cli/command.h"
#include "data/page_share.h"
#include "data/page_source.h"
#include "draw/annotate.h"
#include "tasks/task.h"

namespace plimsoll {

class PagePictures {
 public:
  // Makes the directory, which option --draw of `command` names, and begins the PDF file; either may be empty. With
  // ranks, all call it: each draws its share of the pages, and the first one the PDF file.
  PagePictures(const Invocation& invocation, std::filesystem::path directory, const std::string& command,
               const std::filesystem::path& pdf = {});

  // Returns the bytes that drawing the largest of the pages takes; it reads every image's header. Pages whose image
  // cannot be read do not count.
  static std::size_t bytes(const PageSource& pages, bool with_pdf = false);
  // Writes PAGE.png, adds the page to the PDF file; a page without a size is given that of its image. `finish` warns of
  // a page that cannot be drawn.
  void draw(const Predictions& predictions, Page& page, BoxFormat format);
  // Reserves the name of a page's picture that another process draws.
  void pass(const std::string& id);
  // Ends the PDF file, and warns of pages that could not be drawn. With ranks, all call it.
  void finish();
  // Returns whether there were such pages, of any rank.
  bool lacks_pages() const { return !undrawn_.empty(); }

 private:
  std::filesystem::path directory_;
  PageShare share_;
  std::size_t pages_ = 0;          // so far, including those of other ranks
  std::set<std::string> undrawn_;  // what is said of pages that could not be drawn
  std::optional<AnnotatedPdf> pdf_;
  std::set<std::string> names_;  // names in use
};

}  // namespace plimsoll
