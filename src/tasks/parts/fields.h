// What all tasks write in the same form in `predict`'s output (docs/predictions.md): the page, and its words as one
// field.
//
//   object["fields"].push_back(field_json(page, {"TOTAL", 12, 14}, 0.93F));
#pragma once

#include <array>
#include <nlohmann/json.hpp>

#include "data/label_scheme.h"
#include "data/page.h"

namespace plimsoll {

inline constexpr std::size_t kPageJsonBytesPerWord = 500;  // with a box, as values and as text
// Returns the beginning of every line of `predict`'s output: id and words, and image, size and boxes if the data gives
// them, so that another model can read the line as a page.
nlohmann::json page_json(const Page& page);

// Returns label, text, confidence (0 to 1), start_word, end_word (exclusive), and, if the page has boxes, box and
// boxes.
nlohmann::json field_json(const Page& page, const WordSpan& span, float confidence);

// Returns a word's box in pixels of the page's image, whatever unit the data has.
std::array<double, 4> pixel_box(const Page& page, std::size_t word, BoxFormat format);

}  // namespace plimsoll
