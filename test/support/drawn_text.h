// Pages of printed text for tests of OCR: pictures and PDF files, drawn by Cairo.
//
//   draw_text(folder / "page.png", {"Invoice 4711", "TOTAL 12.50"});
//   draw_pdf(folder / "page.pdf", {{"page one"}, {"page two"}});
#pragma once

#include <cairo/cairo-pdf.h>
#include <cairo/cairo.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "draw/fonts.h"

namespace plimsoll::test {

using Lines = std::vector<std::string>;

inline void show_lines(cairo_t* context, const Lines& lines, double size, bool on_white = true) {
  cairo_set_source_rgb(context, 1, 1, 1);
  if (on_white) cairo_paint(context);
  cairo_set_source_rgb(context, 0, 0, 0);
  const draw::FontFace face = draw::load_font(draw::FontFamily::kDejaVuSans, false);
  cairo_set_font_face(context, face.get());
  cairo_set_font_size(context, size);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    cairo_move_to(context, 2 * size, (3 + 2 * static_cast<double>(i)) * size);
    cairo_show_text(context, lines[i].c_str());
  }
}

// Draws lines of text, black on white, on a sheet of 900 x 600 pixels.
inline cairo_surface_t* text_surface(const Lines& lines) {
  cairo_surface_t* const surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 900, 600);
  cairo_t* const context = cairo_create(surface);
  show_lines(context, lines, 28);
  cairo_destroy(context);
  return surface;
}

inline void draw_text(const std::filesystem::path& png, const Lines& lines) {
  cairo_surface_t* const surface = text_surface(lines);
  cairo_surface_write_to_png(surface, png.c_str());
  cairo_surface_destroy(surface);
}

// A PDF of A4 pages. `as_pictures`: the pages hold pictures of the text, as a scanner makes them; `stamp`, if it is not
// empty, is text on each of them, as of a page number.
inline void draw_pdf(const std::filesystem::path& pdf, const std::vector<Lines>& pages, bool as_pictures = false,
                     const std::string& stamp = {}) {
  cairo_surface_t* const surface = cairo_pdf_surface_create(pdf.c_str(), 595, 842);
  cairo_t* const context = cairo_create(surface);
  for (const Lines& lines : pages) {
    if (as_pictures) {
      cairo_surface_t* const picture = text_surface(lines);
      cairo_save(context);
      cairo_scale(context, 0.5, 0.5);
      cairo_set_source_surface(context, picture, 40, 60);
      cairo_paint(context);
      cairo_restore(context);
      cairo_surface_destroy(picture);
      if (!stamp.empty()) show_lines(context, {stamp}, 8, false);
    } else {
      show_lines(context, lines, 14);
    }
    cairo_show_page(context);
  }
  cairo_destroy(context);
  cairo_surface_destroy(surface);
}

}  // namespace plimsoll::test
