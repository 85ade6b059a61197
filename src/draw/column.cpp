#include "draw/column.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::draw {

std::vector<Runs> break_lines(Sheet& sheet, const Runs& runs, const Style& style, double width) {
  std::vector<Runs> lines(1);
  double used = 0;
  for (const Run& run : runs) {
    for (std::size_t begin = 0; begin < run.text.size();) {
      const std::size_t end = std::min(run.text.find(' ', begin), run.text.size());
      if (end > begin) {
        const std::string word = run.text.substr(begin, end - begin);
        const double advance = sheet.text_width(lines.back().empty() ? word : " " + word, style);
        if (!lines.back().empty() && used + advance > width) {
          lines.emplace_back();
          used = sheet.text_width(word, style);
        } else {
          used += advance;
        }
        lines.back().push_back({word, run.field, run.entity});
      }
      begin = end + 1;
    }
  }
  return lines;
}

void Column::line(const Runs& runs, Align align, const Style& style) {
  const double width = shape_.right - shape_.left;
  const double x = align == Align::kLeft     ? shape_.left
                   : align == Align::kCenter ? (shape_.left + shape_.right) / 2
                                             : shape_.right;
  for (const Runs& part : break_lines(*sheet_, runs, style, width)) {
    // A single word wider than the column is set smaller.
    const double natural = sheet_->text_width(part, style);
    const Style fitted = natural > width ? style.with_size(style.size * width / natural * 0.99) : style;
    sheet_->text(x, baseline(style), part, fitted, align);
    shape_.y += line_height(style);
  }
}

void Column::pair_from(double x, const Runs& left, const Runs& right, const Style& style) {
  const double width = shape_.right - x;
  const double natural = sheet_->text_width(left, style) + sheet_->text_width(right, style) + style.size;
  const Style fitted = natural > width ? style.with_size(style.size * width / natural * 0.99) : style;
  sheet_->text(x, baseline(style), left, fitted);
  sheet_->text(shape_.right, baseline(style), right, fitted, Align::kRight);
  shape_.y += line_height(style);
}

void Column::cells(const std::vector<Cell>& row, const Style& style) {
  for (const Cell& cell : row) sheet_->text(cell.x, baseline(style), cell.runs, style, cell.align);
  shape_.y += line_height(style);
}

void Column::separator(Separator kind) {
  if (shape_.y == separated_at_) return;
  const Style plain = shape_.style.with_bold(false);
  const double middle = shape_.y + 0.5 * line_height(plain);
  const auto row_of = [&](const char* mark) {
    const double width = shape_.right - shape_.left;
    const int count = static_cast<int>(std::floor(width / sheet_->text_width(mark, plain)));
    std::string text;
    for (int i = 0; i < count; ++i) text += mark;
    sheet_->ornament(shape_.left, baseline(plain), text, plain);
  };
  switch (kind) {
    case Separator::kDashes:
      row_of("-");
      break;
    case Separator::kStars:
      row_of("*");
      break;
    case Separator::kEquals:
      row_of("=");
      break;
    case Separator::kRule:
      sheet_->rule(shape_.left, middle, shape_.right, middle, 1.2);
      break;
    case Separator::kDashedRule:
      sheet_->rule(shape_.left, middle, shape_.right, middle, 1.2, true);
      break;
    case Separator::kGap:
      break;
  }
  shape_.y += line_height(plain);
  separated_at_ = shape_.y;
}

std::string Column::clip(const std::string& text, double width, const Style& style) const {
  std::string clipped = text;
  while (sheet_->text_width(clipped, style) > width) {
    const std::size_t space = clipped.rfind(' ');
    if (space == std::string::npos) break;
    clipped.resize(space);
  }
  return clipped;
}

}  // namespace plimsoll::draw
