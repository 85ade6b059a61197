// Draws a page with its fields, for people to look at: what was found, how confident the model is, and its errors.
//
// Words of one entity share a colour; each line of an entity gets an outline and the entity a tag with its name and
// confidence. With gold labels, correct entities are drawn plainly, an entity that is not in the gold is outlined in
// red, and a gold entity that was not found exactly is outlined in dashed red. A legend with counts is below the page,
// never over it. Any text can be drawn: bytes that are not UTF-8 become '?'.
//
//   draw_annotated_page({.image = "page.png", .words = words, .output_png = "annotated.png"});
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/label_scheme.h"

namespace plimsoll {

struct AnnotatedWord {
  std::array<double, 4> box{};         // x0, y0, x1, y1 in pixels of the image
  std::string label{};                 // "O", "B-TOTAL", "I-TOTAL", ...
  std::optional<double> confidence{};  // 0 to 1
  std::optional<std::string> gold_label{};
};

struct AnnotatedPage {
  std::filesystem::path image{};  // PNG, JPEG, TIFF, PNM or BMP
  std::vector<AnnotatedWord> words{};
  std::filesystem::path output_png{};
  // Entity names in the order that determines their colours; other names found on the page follow in alphabetical
  // order. Set it so that all pages of a run have the same colours.
  std::vector<std::string> entity_names{};
  // How labels are read; the default reads each by itself, tagged or plain.
  LabelScheme scheme = LabelScheme::kMixed;
};

// Writes `output_png` under another name, then renames it. A page with a side of more than 2000 pixels is drawn
// smaller. Boxes are clipped to the page. Throws DataError (the image cannot be read, a box or confidence is not a
// number), EnvironmentError (font, disk).
void draw_annotated_page(const AnnotatedPage& page);

// The most bytes that drawing a page of up to that size holds, besides its decoder's (ImageInfo::decode_bytes).
std::size_t drawing_bytes(int width, int height);

}  // namespace plimsoll
