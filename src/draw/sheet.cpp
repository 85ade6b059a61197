#include "draw/sheet.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"

namespace plimsoll::draw {
namespace {

// Ink below this is the soft edge of a letter and does not extend its box by a row or column.
constexpr unsigned char kVisibleInk = 48;

struct Edges {
  double x0, y0, x1, y1;
};

// Returns the upright rectangle around a rectangle that the context's matrix has turned.
Edges to_device(cairo_t* context, double x, double y, double width, double height) {
  Edges edges{1e9, 1e9, -1e9, -1e9};
  for (const auto& [dx, dy] : {std::pair{0.0, 0.0}, {width, 0.0}, {0.0, height}, {width, height}}) {
    double px = x + dx, py = y + dy;
    cairo_user_to_device(context, &px, &py);
    edges = {std::min(edges.x0, px), std::min(edges.y0, py), std::max(edges.x1, px), std::max(edges.y1, py)};
  }
  return edges;
}

bool row_has_ink(const unsigned char* ink, int stride, int y, int x0, int x1) {
  return std::any_of(ink + y * stride + x0, ink + y * stride + x1, [](unsigned char a) { return a >= kVisibleInk; });
}

bool column_has_ink(const unsigned char* ink, int stride, int x, int y0, int y1) {
  for (int y = y0; y < y1; ++y) {
    if (ink[y * stride + x] >= kVisibleInk) return true;
  }
  return false;
}

// A turned rectangle is larger than its contents, so this checks the ink itself.
void shrink_to_ink(InkedWord& word, cairo_surface_t* surface) {
  const unsigned char* ink = cairo_image_surface_get_data(surface);
  const int stride = cairo_image_surface_get_stride(surface);
  while (word.y1 - word.y0 > 1 && !row_has_ink(ink, stride, word.y0, word.x0, word.x1)) ++word.y0;
  while (word.y1 - word.y0 > 1 && !row_has_ink(ink, stride, word.y1 - 1, word.x0, word.x1)) --word.y1;
  while (word.x1 - word.x0 > 1 && !column_has_ink(ink, stride, word.x0, word.y0, word.y1)) ++word.x0;
  while (word.x1 - word.x0 > 1 && !column_has_ink(ink, stride, word.x1 - 1, word.y0, word.y1)) --word.x1;
}

}  // namespace

Style Style::with_size(double new_size) const {
  Style style = *this;
  style.size = new_size;
  return style;
}

Style Style::with_bold(bool new_bold) const {
  Style style = *this;
  style.bold = new_bold;
  return style;
}

Style Style::with_inverted() const {
  Style style = *this;
  style.inverted = true;
  return style;
}

Sheet::Sheet(const FontSet& fonts, double width)
    : fonts_(&fonts),
      width_(width),
      measuring_surface_(make_surface(CAIRO_FORMAT_A8, 1, 1)),
      measuring_(make_context(measuring_surface_.get())) {
  use_plain_font_options(measuring_.get());
}

void Sheet::set_style(cairo_t* context, const Style& style) const {
  cairo_set_font_face(context, fonts_->face(style.family, style.bold));
  cairo_matrix_t matrix;
  cairo_matrix_init_scale(&matrix, style.size * style.stretch, style.size);
  cairo_set_font_matrix(context, &matrix);
}

double Sheet::text_width(std::string_view text, const Style& style) {
  set_style(measuring_.get(), style);
  cairo_text_extents_t extents;
  cairo_text_extents(measuring_.get(), std::string(text).c_str(), &extents);
  return extents.x_advance;
}

double Sheet::text_width(const Runs& runs, const Style& style) {
  double width = 0;
  bool first = true;
  for (const Run& run : runs) {
    if (run.text.empty()) continue;
    width += text_width((first ? "" : " ") + run.text, style);
    first = false;
  }
  return width;
}

double Sheet::text(double x, double baseline, const Runs& runs, const Style& style, Align align) {
  if (align == Align::kCenter) x -= text_width(runs, style) / 2;
  if (align == Align::kRight) x -= text_width(runs, style);
  const double space = text_width(" ", style);
  bool first = true;
  for (const Run& run : runs) {
    for (std::size_t begin = 0; begin < run.text.size();) {
      const std::size_t end = std::min(run.text.find(' ', begin), run.text.size());
      if (end > begin) {
        if (!first) x += space;
        first = false;
        std::string word = run.text.substr(begin, end - begin);
        const double advance = text_width(word, style);
        words_.push_back({std::move(word), style, run.field, run.entity, true, x, baseline});
        x += advance;
      }
      begin = end + 1;
    }
  }
  return x;
}

void Sheet::ornament(double x, double baseline, const std::string& text, const Style& style) {
  words_.push_back({text, style, Field::kNone, -1, false, x, baseline});
}

void Sheet::rule(double x0, double y0, double x1, double y1, double thickness, bool dashed) {
  shapes_.push_back({dashed ? ShapeKind::kDashedRule : ShapeKind::kRule, {x0, y0, x1, y1}, thickness, 1});
}

void Sheet::frame(double x0, double y0, double x1, double y1, double thickness) {
  shapes_.push_back({ShapeKind::kFrame, {x0, y0, x1, y1}, thickness, 1});
}

void Sheet::fill(double x0, double y0, double x1, double y1, double ink) {
  shapes_.push_back({ShapeKind::kFill, {x0, y0, x1, y1}, 0, ink});
}

void Sheet::disc(double x, double y, double radius, double ink) {
  shapes_.push_back({ShapeKind::kDisc, {x, y, radius}, 0, ink});
}

void Sheet::curve(std::vector<double> points, double thickness) {
  shapes_.push_back({ShapeKind::kCurve, std::move(points), thickness, 0.9});
}

void Sheet::draw_shape(cairo_t* context, const Shape& shape) const {
  const std::vector<double>& n = shape.numbers;
  cairo_set_source_rgba(context, 0, 0, 0, shape.ink);
  cairo_set_line_width(context, shape.thickness);
  const double dash = 4;
  cairo_set_dash(context, &dash, shape.kind == ShapeKind::kDashedRule ? 1 : 0, 0);
  switch (shape.kind) {
    case ShapeKind::kFill:
      cairo_rectangle(context, n[0], n[1], n[2] - n[0], n[3] - n[1]);
      cairo_fill(context);
      break;
    case ShapeKind::kRule:
    case ShapeKind::kDashedRule:
      cairo_move_to(context, n[0], n[1]);
      cairo_line_to(context, n[2], n[3]);
      cairo_stroke(context);
      break;
    case ShapeKind::kFrame:
      cairo_rectangle(context, n[0], n[1], n[2] - n[0], n[3] - n[1]);
      cairo_stroke(context);
      break;
    case ShapeKind::kDisc:
      cairo_new_sub_path(context);
      cairo_arc(context, n[0], n[1], n[2], 0, 2 * std::numbers::pi);
      cairo_fill(context);
      break;
    case ShapeKind::kCurve:
      cairo_move_to(context, n[0], n[1]);
      for (std::size_t i = 2; i + 5 < n.size(); i += 6) {
        cairo_curve_to(context, n[i], n[i + 1], n[i + 2], n[i + 3], n[i + 4], n[i + 5]);
      }
      cairo_stroke(context);
      break;
  }
}

InkedPage Sheet::render(Placement placement) const {
  check(height_ > 0, "a sheet has its height set before it is rendered");
  const double scale = std::min(1.0, kLongestSide / std::max(width_, height_));
  InkedPage page;
  page.width = std::min(kLongestSide, static_cast<int>(std::lround(width_ * scale)));
  page.height = std::min(kLongestSide, static_cast<int>(std::lround(height_ * scale)));
  page.ink = make_surface(CAIRO_FORMAT_A8, page.width, page.height);
  const Context context = make_context(page.ink.get());
  use_plain_font_options(context.get());

  // One pass places the boxes; it is repeated with half the turn and shift until all are on the page.
  for (int attempt = 0;; ++attempt) {
    if (attempt == 8) placement = {};
    cairo_matrix_t matrix;
    cairo_matrix_init_translate(&matrix, page.width / 2.0 + placement.shift_x, page.height / 2.0 + placement.shift_y);
    cairo_matrix_rotate(&matrix, placement.angle_degrees * std::numbers::pi / 180);
    cairo_matrix_scale(&matrix, scale, scale);
    cairo_matrix_translate(&matrix, -width_ / 2, -height_ / 2);
    cairo_set_matrix(context.get(), &matrix);

    page.words.clear();
    bool inside = true;
    Field previous = Field::kNone;
    for (const Word& word : words_) {
      if (!word.listed) continue;
      set_style(context.get(), word.style);
      cairo_text_extents_t extents;
      cairo_text_extents(context.get(), word.text.c_str(), &extents);
      const Edges edges = to_device(context.get(), word.x + extents.x_bearing, word.baseline + extents.y_bearing,
                                    extents.width, extents.height);
      InkedWord inked{.text = word.text, .field = word.field, .entity = word.entity};
      inked.begins_field = word.field != previous;
      previous = word.field;
      inked.x0 = static_cast<int>(std::floor(edges.x0)) - 1, inked.y0 = static_cast<int>(std::floor(edges.y0)) - 1;
      inked.x1 = static_cast<int>(std::ceil(edges.x1)) + 1, inked.y1 = static_cast<int>(std::ceil(edges.y1)) + 1;
      inside = inside && inked.x0 >= 0 && inked.y0 >= 0 && inked.x1 <= page.width && inked.y1 <= page.height;
      page.words.push_back(std::move(inked));
    }
    if (inside) break;
    check(attempt < 8, "every word of a layout lies on its sheet");
    placement = {placement.angle_degrees / 2, placement.shift_x / 2, placement.shift_y / 2};
  }

  for (const Shape& shape : shapes_) draw_shape(context.get(), shape);
  for (const Word& word : words_) {
    set_style(context.get(), word.style);
    cairo_set_operator(context.get(), word.style.inverted ? CAIRO_OPERATOR_DEST_OUT : CAIRO_OPERATOR_OVER);
    cairo_set_source_rgba(context.get(), 0, 0, 0, 1);
    cairo_move_to(context.get(), word.x, word.baseline);
    // Draws outlines, not cached glyphs: Cairo puts those at whole pixels, so that a turned line would look like a
    // staircase.
    cairo_text_path(context.get(), word.text.c_str());
    cairo_fill(context.get());
  }
  check_cairo(cairo_status(context.get()), "draw a page");
  cairo_surface_flush(page.ink.get());
  std::size_t listed = 0;
  for (const Word& word : words_) {
    if (!word.listed) continue;
    InkedWord& inked = page.words[listed++];
    if (!word.style.inverted) shrink_to_ink(inked, page.ink.get());
  }
  return page;
}

}  // namespace plimsoll::draw
