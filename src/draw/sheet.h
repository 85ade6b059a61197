// A sheet of paper for text and shapes, and its rendering as ink with one box per word.
//
// A sheet is a display list in page coordinates (pixels, y downwards, text placed by its baseline). Rendering turns it
// a little, as a scanner does, and reports where every word's ink is.
//
// Invariants: words come out in the order in which they were put; the words of one field are put one after the other,
// so that labels are valid BIO with one entity per field; a box is tight around the word's ink and inside the page.
//
//   Sheet sheet(fonts, 420);
//   sheet.text(210, 40, {{"Kovira Hardware", Field::kCompany}}, style, Align::kCenter);
//   sheet.set_height(600);
//   const InkedPage page = sheet.render({.angle_degrees = 0.4});
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "draw/fonts.h"

namespace plimsoll::draw {

enum class Field { kNone, kCompany, kAddress, kDate, kTotal };

struct Style {
  FontFamily family = FontFamily::kDejaVuSans;
  bool bold = false;
  double size = 14;       // pixels per em
  double stretch = 1;     // relative to the font's own width: tills print narrow
  bool inverted = false;  // white on a filled bar

  Style with_size(double new_size) const;
  Style with_bold(bool new_bold = true) const;
  Style with_inverted() const;
};

// Some words that belong to one field of a receipt, or to one entity of a form. Single spaces separate the words.
struct Run {
  std::string text{};
  Field field = Field::kNone;
  int entity = -1;  // its index in the form; -1 on a receipt
};
using Runs = std::vector<Run>;

enum class Align { kLeft, kCenter, kRight };

// The position of the paper on the scanner.
struct Placement {
  double angle_degrees = 0;
  double shift_x = 0, shift_y = 0;
};

struct InkedWord {
  std::string text{};
  Field field = Field::kNone;
  bool begins_field = false;
  int entity = -1;
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // pixels, half-open
};

struct InkedPage {
  int width = 0, height = 0;
  Surface ink;  // A8: 0 is blank paper, 255 full ink
  std::vector<InkedWord> words{};
};

class Sheet {
 public:
  Sheet(const FontSet& fonts, double width);

  double width() const { return width_; }
  void set_height(double height) { height_ = height; }

  double text_width(std::string_view text, const Style& style);
  double text_width(const Runs& runs, const Style& style);
  // Puts the runs on one line at `x` (its left end, middle or right end) and returns the x where the text ends.
  double text(double x, double baseline, const Runs& runs, const Style& style, Align align = Align::kLeft);
  // Puts text that is not part of the page's words: a separator of dashes or stars.
  void ornament(double x, double baseline, const std::string& text, const Style& style);

  void rule(double x0, double y0, double x1, double y1, double thickness, bool dashed = false);
  void frame(double x0, double y0, double x1, double y1, double thickness);
  // Fills a bar; `ink` 1 is black, less is gray.
  void fill(double x0, double y0, double x1, double y1, double ink = 1);
  void disc(double x, double y, double radius, double ink = 1);
  // Draws a curve that looks handwritten through the points x0, y0, x1, y1, ...
  void curve(std::vector<double> points, double thickness);

  // Renders the page with at most `kLongestSide` pixels on either side (a longer sheet is scaled down as a whole). An
  // angle that would push a word off the page is halved until it does not.
  InkedPage render(Placement placement) const;

  static constexpr int kLongestSide = 1000;

 private:
  enum class ShapeKind { kFill, kRule, kDashedRule, kFrame, kDisc, kCurve };
  struct Shape {
    ShapeKind kind;
    std::vector<double> numbers;
    double thickness, ink;
  };
  struct Word {
    std::string text;
    Style style;
    Field field;
    int entity;
    bool listed;  // false: drawn, but not among the page's words
    double x, baseline;
  };

  void set_style(cairo_t* context, const Style& style) const;
  void draw_shape(cairo_t* context, const Shape& shape) const;

  const FontSet* fonts_;
  double width_, height_ = 0;
  std::vector<Shape> shapes_;
  std::vector<Word> words_;
  Surface measuring_surface_;
  Context measuring_;
};

}  // namespace plimsoll::draw
