// What tasks write alike in `predict`'s output (docs/predictions.md): the page, and its words as one field.
//
//   object["fields"].push_back(field_json(page, {"TOTAL", 12, 14}, 0.93F));
#pragma once

#include <array>
#include <nlohmann/json.hpp>

#include "data/label_scheme.h"
#include "data/page.h"

namespace plimsoll {

// What begins every line of `predict`'s output: id and words, and what the data gives of image, size and boxes, so that
// the line is a page again for another model.
nlohmann::json page_json(const Page& page);

// Label, text, confidence (0 to 1), start_word, end_word (exclusive), and, where the page has boxes, box and boxes.
nlohmann::json field_json(const Page& page, const WordSpan& span, float confidence);

// A word's box in pixels of the page's image, whatever the data gave.
std::array<double, 4> pixel_box(const Page& page, std::size_t word, BoxFormat format);

}  // namespace plimsoll
