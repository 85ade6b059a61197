// Text that flows down a column of a sheet: lines, pairs of caption and value, separators.
//
//   Column column(sheet, {.left = 20, .right = 400, .style = style, .leading = 1.3});
//   column.line({{"Kovira Hardware", Field::kCompany}}, Align::kCenter);
//   column.pair({{"TOTAL"}}, {{"12.40", Field::kTotal}});
#pragma once

#include <string>
#include <vector>

#include "draw/sheet.h"

namespace plimsoll::draw {

struct ColumnShape {
  double left = 0, right = 0;
  double y = 0;  // top of the next line
  Style style{};
  double leading = 1.3;  // line height in font sizes
};

enum class Separator { kDashes, kStars, kEquals, kRule, kDashedRule, kGap };

// Breaks runs into lines of at most `width`, between words; a wider word gets a separate line.
std::vector<Runs> break_lines(Sheet& sheet, const Runs& runs, const Style& style, double width);

// A piece of a table row: runs placed at `x` with their own alignment.
struct Cell {
  double x = 0;
  Align align = Align::kLeft;
  Runs runs{};
};

class Column {
 public:
  Column(Sheet& sheet, const ColumnShape& shape) : sheet_(&sheet), shape_(shape) {}

  double y() const { return shape_.y; }
  double left() const { return shape_.left; }
  double right() const { return shape_.right; }
  const Style& style() const { return shape_.style; }
  double line_height(const Style& style) const { return style.size * shape_.leading; }
  void skip(double lines) { shape_.y += lines * line_height(shape_.style); }
  void skip_pixels(double pixels) { shape_.y += pixels; }

  // Puts one line, broken between words if it is wider than the column.
  void line(const Runs& runs, Align align = Align::kLeft) { line(runs, align, shape_.style); }
  void line(const Runs& runs, Align align, const Style& style);
  // Puts the left and right ends of one line; both are set smaller if they do not fit.
  void pair(const Runs& left, const Runs& right) { pair(left, right, shape_.style); }
  void pair(const Runs& left, const Runs& right, const Style& style) { pair_from(shape_.left, left, right, style); }
  // Does the same with the left end at `x`.
  void pair_from(double x, const Runs& left, const Runs& right, const Style& style);
  void cells(const std::vector<Cell>& row) { cells(row, shape_.style); }
  void cells(const std::vector<Cell>& row, const Style& style);
  // Puts a separator, unless the last thing put was one.
  void separator(Separator kind);

  // Returns `text` without its last words until it is at most `width` wide; at least one word stays.
  std::string clip(const std::string& text, double width, const Style& style) const;

 private:
  // Returns the baseline of the letters within the line's height.
  double baseline(const Style& style) const { return shape_.y + 0.95 * style.size; }

  Sheet* sheet_;
  ColumnShape shape_;
  double separated_at_ = -1;  // the y just below the last separator
};

}  // namespace plimsoll::draw
