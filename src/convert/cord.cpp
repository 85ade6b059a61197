// CORD's annotations: lines of a category, with words that have four corners. A word that is a key is outside every
// entity: it names the value beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "convert/readers.h"

namespace plimsoll {
namespace {

Box box_of(const JsonNode& quad) {
  Enclosure box;
  for (const auto& corner : {std::pair{"x1", "y1"}, {"x2", "y2"}, {"x3", "y3"}, {"x4", "y4"}}) {
    box.add(quad.at(corner.first).number(), quad.at(corner.second).number());
  }
  return box.box();
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

bool is_cord(const Evidence& evidence) { return evidence.has("valid_line"); }

void read_cord(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string();
  const nlohmann::json json = parse_json_file(read_text_file(file, kLongestFile), name);
  const JsonNode root(json, name);
  FoundPage page = new_page(file, 1, 1);
  const std::optional<JsonNode> meta = root.find("meta");
  if (const std::optional<JsonNode> size = meta ? meta->find("image_size") : std::nullopt) {
    page.width = size->at("width").number();
    page.height = size->at("height").number();
  }
  const JsonNode lines = root.at("valid_line");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const JsonNode line = lines.item(i), words = line.at("words");
    const std::string label = upper(line.at("category").text());
    Enclosure segment;
    for (std::size_t w = 0; w < words.size(); ++w) segment.add(box_of(words.item(w).at("quad")));
    bool first = true;
    for (std::size_t w = 0; w < words.size(); ++w) {
      const JsonNode word = words.item(w);
      const std::size_t before = page.words.size();
      add_word(page, {.text = word.at("text").text(), .box = box_of(word.at("quad")), .segment = segment.box()},
               reading.losses);
      if (page.words.size() == before) continue;
      const std::optional<JsonNode> key = word.find("is_key");
      const bool is_key = key && (key->value().is_boolean() ? key->value().get<bool>() : key->number() != 0);
      page.labels.push_back(is_key ? "O" : (first ? "B-" : "I-") + label);
      if (!is_key) first = false;
    }
  }
  reading.take(std::move(page));
}

}  // namespace plimsoll
