#include "draw/wear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace plimsoll::draw {
namespace {

// An image's rows without the surface's padding.
struct Plane {
  int width, height;
  std::vector<float> values;

  float& at(int x, int y) {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)];
  }
  float at(int x, int y) const {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)];
  }
};

Plane ink_of(const InkedPage& page) {
  Plane plane{page.width, page.height, {}};
  plane.values.resize(static_cast<std::size_t>(page.width) * static_cast<std::size_t>(page.height));
  const unsigned char* data = cairo_image_surface_get_data(page.ink.get());
  const int stride = cairo_image_surface_get_stride(page.ink.get());
  for (int y = 0; y < page.height; ++y) {
    for (int x = 0; x < page.width; ++x) plane.at(x, y) = static_cast<float>(data[y * stride + x]) / 255.0F;
  }
  return plane;
}

// Makes a curve through random heights in [low, high], one every `spacing` pixels, eased between them.
std::vector<float> smooth_curve(int length, int spacing, double low, double high, PageRandom& random) {
  std::vector<double> knots(static_cast<std::size_t>(length / spacing + 2));
  for (double& knot : knots) knot = random.uniform(low, high);
  std::vector<float> curve(static_cast<std::size_t>(length));
  for (int i = 0; i < length; ++i) {
    const auto knot = static_cast<std::size_t>(i / spacing);
    const double t = static_cast<double>(i % spacing) / spacing, eased = t * t * (3 - 2 * t);
    curve[static_cast<std::size_t>(i)] = static_cast<float>(knots[knot] + (knots[knot + 1] - knots[knot]) * eased);
  }
  return curve;
}

// Blurs the ink: each neighbour receives the part `strength` of it, as with optics slightly out of focus.
void soften(Plane& ink, float strength) {
  const float side = strength / 4, middle = 1 - 2 * side;
  std::vector<float> line(static_cast<std::size_t>(std::max(ink.width, ink.height)));
  for (int y = 0; y < ink.height; ++y) {
    for (int x = 0; x < ink.width; ++x) line[static_cast<std::size_t>(x)] = ink.at(x, y);
    for (int x = 1; x + 1 < ink.width; ++x) {
      const auto i = static_cast<std::size_t>(x);
      ink.at(x, y) = middle * line[i] + side * (line[i - 1] + line[i + 1]);
    }
  }
  for (int y = 1, last = ink.height - 1; y < last; ++y) {
    // `line` keeps the unmodified row above.
    if (y == 1) {
      for (int x = 0; x < ink.width; ++x) line[static_cast<std::size_t>(x)] = ink.at(x, 0);
    }
    for (int x = 0; x < ink.width; ++x) {
      float& above = line[static_cast<std::size_t>(x)];
      const float here = ink.at(x, y);
      ink.at(x, y) = middle * here + side * (above + ink.at(x, y + 1));
      above = here;
    }
  }
}

// Imitates worn ribbons and print heads: whole columns and rows become paler, but never unreadable.
void fade(Plane& ink, PageRandom& random) {
  const double palest = random.uniform(0.55, 0.85);
  const std::vector<float> columns = smooth_curve(ink.width, 70, palest, 1.0, random);
  const std::vector<float> rows = smooth_curve(ink.height, 160, 0.85, 1.0, random);
  for (int y = 0; y < ink.height; ++y) {
    for (int x = 0; x < ink.width; ++x) {
      ink.at(x, y) *= columns[static_cast<std::size_t>(x)] * rows[static_cast<std::size_t>(y)];
    }
  }
}

// Makes the gray levels of blank paper: a level, a slope across the page, perhaps a crease and a dark edge.
Plane paper_of(int width, int height, double level, PageRandom& random, bool worn) {
  Plane paper{width, height, {}};
  paper.values.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  const bool sloped = random.chance(worn ? 0.8 : 0.35);
  const double slope_x = sloped ? random.uniform(-11, 11) : 0, slope_y = sloped ? random.uniform(-11, 11) : 0;
  const bool creased = random.chance(worn ? 0.4 : 0.06);
  const int crease = random.between(height / 4, 3 * height / 4);
  const double crease_depth = random.uniform(6, 18);
  const bool edged = random.chance(worn ? 0.35 : 0.08);
  const int edge = random.between(0, 3), edge_width = random.between(1, 4);
  for (int y = 0; y < height; ++y) {
    const double row = level + slope_y * (static_cast<double>(y) / height - 0.5) -
                       (creased ? crease_depth * std::max(0.0, 1 - std::abs(y - crease) / 3.0) : 0);
    for (int x = 0; x < width; ++x) {
      double value = row + slope_x * (static_cast<double>(x) / width - 0.5);
      const std::array<int, 4> from_edge = {x, y, width - 1 - x, height - 1 - y};
      if (edged && from_edge[static_cast<std::size_t>(edge)] < edge_width) value -= 90;
      paper.at(x, y) = static_cast<float>(value);
    }
  }
  return paper;
}

void speckle(Plane& gray, int dots, double lightest, double darkest, PageRandom& random) {
  for (int i = 0; i < dots; ++i) {
    const int x = random.between(0, gray.width - 2), y = random.between(0, gray.height - 2);
    const auto tone = static_cast<float>(random.chance(0.75) ? random.uniform(darkest, 170) : lightest);
    const int size = random.chance(0.25) ? 2 : 1;
    for (int dy = 0; dy < size; ++dy) {
      for (int dx = 0; dx < size; ++dx) gray.at(x + dx, y + dy) = tone;
    }
  }
}

void grain(Plane& gray, double amplitude, PageRandom& random) {
  for (float& value : gray.values) {
    value += static_cast<float>((static_cast<double>(random.bits() >> 16) * 0x1.0p-15 - 1.0) * amplitude);
  }
}

std::uint32_t to_byte(double value) { return static_cast<std::uint32_t>(std::clamp(std::lround(value), 0L, 255L)); }

Surface to_gray(const Plane& gray) {
  Surface surface = make_surface(CAIRO_FORMAT_A8, gray.width, gray.height);
  cairo_surface_flush(surface.get());
  unsigned char* data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int y = 0; y < gray.height; ++y) {
    for (int x = 0; x < gray.width; ++x) data[y * stride + x] = static_cast<unsigned char>(to_byte(gray.at(x, y)));
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

Surface to_tinted(const Plane& gray, const std::array<double, 3>& tint) {
  Surface surface = make_surface(CAIRO_FORMAT_RGB24, gray.width, gray.height);
  cairo_surface_flush(surface.get());
  unsigned char* data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int y = 0; y < gray.height; ++y) {
    auto* row = reinterpret_cast<std::uint32_t*>(data + y * stride);
    for (int x = 0; x < gray.width; ++x) {
      const double value = gray.at(x, y);
      row[x] = to_byte(value * tint[0]) << 16 | to_byte(value * tint[1]) << 8 | to_byte(value * tint[2]);
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

}  // namespace

Surface wear(const InkedPage& page, PageRandom& random) {
  const double condition = random.uniform();
  const bool clean = condition < 0.3, worn = condition > 0.8;
  const double paper_level = clean  ? random.uniform(246, 255)
                             : worn ? random.uniform(205, 240)
                                    : random.uniform(232, 252);
  const double ink_level = clean ? random.uniform(0, 30) : worn ? random.uniform(25, 85) : random.uniform(5, 60);

  Plane gray = ink_of(page);
  if (!clean && random.chance(0.5)) soften(gray, static_cast<float>(random.uniform(0.2, worn ? 0.8 : 0.5)));
  if (!clean && random.chance(worn ? 0.8 : 0.4)) fade(gray, random);
  const Plane paper = paper_of(page.width, page.height, paper_level, random, worn);
  for (std::size_t i = 0; i < gray.values.size(); ++i) {
    gray.values[i] = paper.values[i] + (static_cast<float>(ink_level) - paper.values[i]) * gray.values[i];
  }
  if (!clean) speckle(gray, random.between(0, worn ? 240 : 60), paper_level, ink_level, random);
  if (random.chance(worn ? 0.4 : 0.08)) grain(gray, random.uniform(1.0, 2.5), random);

  if (!random.chance(0.22)) return to_gray(gray);
  constexpr std::array<std::array<double, 3>, 4> kTints = {
      {{1.0, 0.985, 0.93}, {1.0, 0.965, 0.955}, {0.965, 0.985, 1.0}, {0.975, 1.0, 0.965}}};
  return to_tinted(gray, random.pick(kTints));
}

}  // namespace plimsoll::draw
