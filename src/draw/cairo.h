// Wraps Cairo objects so that they free themselves, and turns its status codes into typed errors.
#pragma once

#include <cairo/cairo.h>

#include <memory>
#include <string>

namespace plimsoll::draw {

struct CairoDeleter {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_font_face_t* face) const { cairo_font_face_destroy(face); }
};
using Context = std::unique_ptr<cairo_t, CairoDeleter>;
using Surface = std::unique_ptr<cairo_surface_t, CairoDeleter>;
using FontFace = std::unique_ptr<cairo_font_face_t, CairoDeleter>;

// Throws EnvironmentError (out of memory) or InternalError (anything else) unless `status` is success.
void check_cairo(cairo_status_t status, const char* doing);

// Makes an image surface, all zero. Throws EnvironmentError if there is not enough memory.
Surface make_surface(cairo_format_t format, int width, int height);
Context make_context(cairo_surface_t* surface);

// Encodes the surface as a PNG file: A8 becomes 8-bit gray, RGB24 becomes 8-bit RGB.
std::string encode_png(cairo_surface_t* surface);

}  // namespace plimsoll::draw
