#include "convert/rectangle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll {
namespace {

// Returns how many bytes of white space `text` begins with; 0: none.
std::size_t space_at(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : '\0'); };
  if (byte(0) == ' ' || (byte(0) >= '\t' && byte(0) <= '\r')) return 1;
  if (byte(0) == 0xC2 && (byte(1) == 0xA0 || byte(1) == 0x85)) return 2;  // no-break space, next line
  if (byte(0) == 0xE2 && byte(1) == 0x80) {
    // U+2000 to U+200A, line and paragraph separator, narrow no-break space.
    if ((byte(2) >= 0x80 && byte(2) <= 0x8A) || byte(2) == 0xA8 || byte(2) == 0xA9 || byte(2) == 0xAF) return 3;
  }
  if (byte(0) == 0xE2 && byte(1) == 0x81 && byte(2) == 0x9F) return 3;  // U+205F
  if (byte(0) == 0xE3 && byte(1) == 0x80 && byte(2) == 0x80) return 3;  // ideographic space
  return 0;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::pair<double, double> turned(const Rectangle& around, double x, double y) {
  // Quarter turns are exact.
  const double degrees = std::remainder(around.degrees, 360.0);
  const double angle = degrees * std::numbers::pi / 180.0;
  double cosine = std::cos(angle), sine = std::sin(angle);
  if (std::remainder(degrees, 90.0) == 0) {
    cosine = std::round(cosine);
    sine = std::round(sine);
  }
  return {around.x + x * cosine - y * sine, around.y + x * sine + y * cosine};
}

// Returns the upright box around a part of the rectangle; x and y count from its top left corner.
Box enclosing_part(const Rectangle& whole, double x, double y, double width, double height) {
  Enclosure box;
  for (const double dx : {0.0, width}) {
    for (const double dy : {0.0, height}) {
      const std::pair<double, double> corner = turned(whole, x + dx, y + dy);
      box.add(corner.first, corner.second);
    }
  }
  return box.box();
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\r", begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    if (!line.empty()) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

}  // namespace

void Enclosure::add(double x, double y) {
  if (empty_) box_ = {x, y, x, y};
  empty_ = false;
  box_ = {std::min(box_[0], x), std::min(box_[1], y), std::max(box_[2], x), std::max(box_[3], y)};
}

void Enclosure::add(const Box& box) {
  add(box[0], box[1]);
  add(box[2], box[3]);
}

Box enclosing(const Rectangle& rectangle) { return enclosing_part(rectangle, 0, 0, rectangle.width, rectangle.height); }

Rectangle rectangle_of(const Box& box) {
  return {.x = box[0], .y = box[1], .width = box[2] - box[0], .height = box[3] - box[1]};
}

std::vector<Piece> divided(std::string_view text, const Rectangle& rectangle) {
  std::vector<Piece> pieces;
  const std::vector<std::string_view> lines = lines_of(text);
  const double line_height = rectangle.height / static_cast<double>(std::max<std::size_t>(lines.size(), 1));
  for (std::size_t line = 0; line < lines.size(); ++line) {
    const std::vector<std::string> words = words_of(lines[line]);
    double units = -1;  // the last word has no space after it
    for (const std::string& word : words) units += static_cast<double>(characters(word)) + 1;
    const double unit = units > 0 ? rectangle.width / units : 0;
    double x = 0;
    for (const std::string& word : words) {
      const double width = unit * static_cast<double>(characters(word));
      pieces.push_back(
          {word, enclosing_part(rectangle, x, line_height * static_cast<double>(line), width, line_height)});
      x += width + unit;
    }
  }
  return pieces;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = space_at(text.substr(i, 3));
    if (space == 0) {
      word += text[i++];
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
    i += space;
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::string_view trimmed(std::string_view text) {
  while (const std::size_t space = space_at(text)) text.remove_prefix(space);
  for (bool cut = true; cut && !text.empty();) {
    cut = false;
    for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()) && !cut; ++bytes) {
      if (space_at(text.substr(text.size() - bytes)) != bytes) continue;
      text.remove_suffix(bytes);
      cut = true;
    }
  }
  return text;
}

}  // namespace plimsoll
