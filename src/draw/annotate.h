// Draws a page with its fields, for people to look at: what was found, how confident the model is, and its errors.
//
// Words of one entity share a colour; each line of an entity gets an outline and the entity a tag with its name and
// confidence. With gold labels, correct entities are drawn plainly, an entity that is not in the gold is outlined in
// red, and a gold entity that was not found exactly is outlined in dashed red. A legend with counts is below the page,
// never over it. Any text can be drawn: bytes that are not UTF-8 become '?'.
//
//   draw_annotated_page({.image = "page.png", .words = words, .output_png = "annotated.png"});
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "data/annotated_page.h"

namespace plimsoll {

// Writes `output_png` under another name, then renames it. A page with a side of more than 2000 pixels is drawn
// smaller. Boxes are clipped to the page. Throws DataError (the image cannot be read, a box or confidence is not a
// number), EnvironmentError (font, disk).
void draw_annotated_page(const AnnotatedPage& page);

// Writes the same pages to one PDF file: each page is scaled to fit a sheet of A4. No file exists until `close` is
// reached; a page is held until the next one.
class AnnotatedPdf {
 public:
  // Throws EnvironmentError.
  explicit AnnotatedPdf(const std::filesystem::path& path);
  ~AnnotatedPdf();
  AnnotatedPdf(const AnnotatedPdf&) = delete;
  AnnotatedPdf& operator=(const AnnotatedPdf&) = delete;

  // Adds a page; `output_png` is ignored. Throws like draw_annotated_page.
  void add(const AnnotatedPage& page);
  void close();

 private:
  class File;
  std::unique_ptr<File> file_;
};

// Returns the most bytes that drawing a page of up to that size holds, besides its decoder's (ImageInfo::decode_bytes).
std::size_t drawing_bytes(int width, int height);
// Returns what a page of an AnnotatedPdf takes besides that.
std::size_t pdf_page_bytes(int width, int height);

}  // namespace plimsoll
