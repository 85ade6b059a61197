// Boxes of other programs: polygons, turned rectangles, and boxes around text of several words.
//
//   const Box box = enclosing({.x = 10, .y = 20, .width = 30, .height = 10, .degrees = 90});
//   for (const Piece& piece : divided("TOTAL 12.50", {.x = 0, .y = 0, .width = 110, .height = 20})) use(piece.box);
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/page.h"

namespace plimsoll {

// A rectangle, turned clockwise by `degrees` around its top left corner, as in Label Studio. All sides are in one unit.
struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0, degrees = 0;
};

// Grows around points: the smallest upright box that holds them all.
class Enclosure {
 public:
  void add(double x, double y);
  void add(const Box& box);
  bool empty() const { return empty_; }
  const Box& box() const { return box_; }

 private:
  Box box_{};
  bool empty_ = true;
};

Box enclosing(const Rectangle& rectangle);
Rectangle rectangle_of(const Box& box);

// A word of a text and its part of the text's rectangle.
struct Piece {
  std::string text;
  Box box;
};

// Returns the words of `text` with their shares of the rectangle: its lines are equally high, and a word's width is
// proportional to its characters. The text is UTF-8.
std::vector<Piece> divided(std::string_view text, const Rectangle& rectangle);

// Returns the words of a text, which are separated by white space, including Unicode's.
std::vector<std::string> words_of(std::string_view text);
// Returns the text without white space at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace plimsoll
