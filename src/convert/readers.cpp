#include "convert/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/lower_case.h"

namespace plimsoll {
namespace {

constexpr Loss kNoText{"word has no text and is left out", "words have no text and are left out"};

}  // namespace

FoundPage new_page(const std::filesystem::path& file, int number, std::size_t count) {
  FoundPage page;
  page.file = file;
  page.number = number;
  page.only = count == 1;
  page.id = file.stem().string();
  page.where = file.string();
  if (count > 1) {
    page.document = page.id;
    page.id += fmt::format("-{}", number);
    page.where += fmt::format(", page {}", number);
  }
  return page;
}

void add_word(FoundPage& page, FoundWord word, Losses& losses) {
  const std::string_view text = trimmed(word.text);
  if (text.empty()) return losses.add(kNoText, page.where);
  word.text = std::string(text);
  page.words.push_back(std::move(word));
}

void add_divided(FoundPage& page, std::string_view text, const Rectangle& rectangle, Losses& losses) {
  const Box segment = enclosing(rectangle);
  const std::vector<Piece> pieces = divided(text, rectangle);
  if (pieces.empty()) losses.add(kNoText, page.where);
  for (const Piece& piece : pieces) page.words.push_back({.text = piece.text, .box = piece.box, .segment = segment});
}

Box box_of_points(const JsonNode& points) {
  Enclosure box;
  const std::size_t count = points.size();
  const bool flat = count > 0 && points.item(0).value().is_number();
  if (flat && count % 2 != 0) points.refuse("a polygon has a coordinate without its other one", "x, y, x, y, …");
  for (std::size_t i = 0; i < count; i += flat ? 2 : 1) {
    const JsonNode point = points.item(i);
    if (flat) {
      box.add(point.number(), points.item(i + 1).number());
      continue;
    }
    // Protocol Buffers omit members whose value is 0.
    const std::optional<JsonNode> x = point.find({"x", "X"}), y = point.find({"y", "Y"});
    box.add(x ? x->number() : 0, y ? y->number() : 0);
  }
  if (box.empty()) points.refuse("a polygon has no points", "at least two points");
  return box.box();
}

void label_words(FoundPage& page, std::size_t begin, const std::string& label, bool is_tag) {
  page.labels.resize(begin, "O");
  // A tag that stands for a whole entity, or its end, cannot begin one of several words.
  const bool is_one_word = page.words.size() - begin == 1;
  const std::string type = is_tag ? label.substr(2) : label;
  const std::string first = is_tag && (is_one_word || label[0] == 'B' || label[0] == 'I') ? label : "B-" + type;
  for (std::size_t w = begin; w < page.words.size(); ++w) {
    page.labels.push_back(is_outside(label) ? "O" : w == begin ? first : "I-" + type);
  }
}

bool is_outside(std::string_view label) {
  const std::string lower = lower_case(label);
  return lower == "o" || lower == "other";
}

}  // namespace plimsoll
