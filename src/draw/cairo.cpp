#include "draw/cairo.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::draw {

void check_cairo(cairo_status_t status, const char* doing) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  Problem problem{.what = fmt::format("cannot {}", doing), .found = cairo_status_to_string(status)};
  if (status == CAIRO_STATUS_NO_MEMORY) throw EnvironmentError(std::move(problem));
  throw InternalError(std::move(problem));
}

Surface make_surface(cairo_format_t format, int width, int height) {
  Surface surface(cairo_image_surface_create(format, width, height));
  check_cairo(cairo_surface_status(surface.get()), "create an image in memory");
  return surface;
}

Context make_context(cairo_surface_t* surface) {
  Context context(cairo_create(surface));
  check_cairo(cairo_status(context.get()), "draw on an image");
  return context;
}

std::string encode_png(cairo_surface_t* surface) {
  std::string bytes;
  const auto append = [](void* closure, const unsigned char* data, unsigned length) {
    static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  };
  check_cairo(cairo_surface_write_to_png_stream(surface, append, &bytes), "encode a PNG image");
  return bytes;
}

}  // namespace plimsoll::draw
