// CORD's annotations: lines of a category, with words that have four corners. A word that is a key is outside every
// entity: it names the value beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "convert/lines.h"
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

void read_page(const JsonNode& root, FoundPage page, const Reading& reading) {
  const std::optional<JsonNode> meta = root.find("meta");
  if (const std::optional<JsonNode> size = meta ? meta->find("image_size") : std::nullopt) {
    page.width = size->at("width").number();
    page.height = size->at("height").number();
  }
  if (!root.find("valid_line") && root.find({"gt_parse", "gt_parses"})) {
    root.refuse("a page has a parse, but no words with boxes", "\"valid_line\", as in CORD's own annotations",
                "take words and boxes from the pictures: plimsoll ocr --input PICTURES --output pages.jsonl");
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

// The rows of the data set on Hugging Face's hub have a page's annotations as text, beside its picture.
void read_row(std::string_view text, const std::filesystem::path& file, const std::string& where, int number,
              const Reading& reading) {
  const nlohmann::json json = parse_json_file(text, where);
  const JsonNode root(json, where);
  FoundPage page = new_page(file, number, 2);
  page.where = where;
  page.document.clear();  // each row is a page of its own
  page.number = 0;
  std::optional<JsonNode> picture = root.find({"file_name", "image_path", "image"});
  if (picture && picture->value().is_object()) picture = picture->find("path");
  if (picture && picture->is_text()) page.image = picture->text();
  const JsonNode truth = root.at("ground_truth");
  if (!truth.is_text()) return read_page(truth, std::move(page), reading);
  const std::string inner_where = where + ", ground_truth";
  const nlohmann::json inner = parse_json_file(truth.text(), inner_where);
  read_page(JsonNode(inner, inner_where), std::move(page), reading);
}

}  // namespace

bool is_cord(const Evidence& evidence) {
  return evidence.has("valid_line") || evidence.has("ground_truth") || evidence.has("[].ground_truth");
}

void read_cord(const std::filesystem::path& file, const Reading& reading) {
  const std::string text = read_text_file(file, kLongestFile), name = file.string();
  const std::set<std::string> members = json_members(text);
  int number = 0;
  if (members.contains("ground_truth")) {
    LineReader lines(file);
    while (lines.next()) {
      if (!trimmed(lines.text()).empty()) read_row(lines.text(), file, lines.where(), ++number, reading);
    }
  } else if (members.contains("[].ground_truth")) {
    for (const JsonItem& row : list_items(text)) {
      ++number;
      read_row(row.text, file, fmt::format("{}:{}", name, row.line), number, reading);
    }
  } else {
    const nlohmann::json json = parse_json_file(text, name);
    read_page(JsonNode(json, name), new_page(file, 1, 1), reading);
  }
}

}  // namespace plimsoll
