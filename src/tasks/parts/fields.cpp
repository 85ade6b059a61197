#include "tasks/parts/fields.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

// Writes whole numbers as they were read: 12 and not 12.0.
nlohmann::json box_json(const Box& box) {
  nlohmann::json json = nlohmann::json::array();
  for (const double value : box) {
    const bool whole = std::floor(value) == value && std::abs(value) < 1e9;
    json.push_back(whole ? nlohmann::json(static_cast<std::int64_t>(value)) : nlohmann::json(value));
  }
  return json;
}

Box united(Box a, const Box& b) {
  return {std::min(a[0], b[0]), std::min(a[1], b[1]), std::max(a[2], b[2]), std::max(a[3], b[3])};
}

}  // namespace

nlohmann::json page_json(const Page& page) {
  if (page.is_text) return {{"id", page.id}, {"text", page.words.empty() ? std::string() : page.words.front()}};
  nlohmann::json object = {{"id", page.id}, {"words", page.words}};
  if (!page.image.empty()) object["image"] = page.image.string();
  if (page.width > 0 && page.height > 0) {
    object["width"] = page.width;
    object["height"] = page.height;
  }
  if (page.boxes.empty() && !page.words.empty()) return object;
  object["boxes"] = nlohmann::json::array();
  for (const Box& box : page.boxes) object["boxes"].push_back(box_json(box));
  return object;
}

nlohmann::json field_json(const Page& page, const WordSpan& span, float confidence) {
  std::string text;
  for (std::size_t w = span.begin; w < span.end; ++w) text += (w == span.begin ? "" : " ") + page.words[w];
  nlohmann::json field = {{"label", span.name},
                          {"text", text},
                          {"confidence", confidence},
                          {"start_word", span.begin},
                          {"end_word", span.end}};
  if (page.boxes.empty()) return field;
  Box box = page.boxes[span.begin];
  nlohmann::json boxes = nlohmann::json::array();
  for (std::size_t w = span.begin; w < span.end; ++w) {
    box = united(box, page.boxes[w]);
    boxes.push_back(box_json(page.boxes[w]));
  }
  field["box"] = box_json(box);
  field["boxes"] = std::move(boxes);
  return field;
}

std::array<double, 4> pixel_box(const Page& page, std::size_t word, BoxFormat format) {
  const Box& box = page.boxes[word];
  if (format == BoxFormat::kPixel) return {box[0], box[1], box[2], box[3]};
  const double x = page.width / 1000.0, y = page.height / 1000.0;
  return {box[0] * x, box[1] * y, box[2] * x, box[3] * y};
}

}  // namespace plimsoll
