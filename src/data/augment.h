// Augmentation: shows a page as another scan or photograph would: turned and scaled a little, cut or framed at its
// edges, lighter or darker, less sharp. Boxes move with the pixels.
//
// Invariant: it is a pure function of (seed, epoch, page), so the number of workers, the order of pages or a resume
// cannot change it.
//
//   const Augmentation augmentation = Augmentation::draw({.seed = 42, .epoch = 3, .page = 17}, width / height, 1.0);
//   if (augmentation.keeps(box)) box = augmentation.move(box);
//   augmentation.apply(twice, 224, 224, buffer, out);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/page.h"

namespace plimsoll {

struct AugmentationKey {
  std::uint64_t seed = 0, epoch = 0;
  std::uint32_t page = 0;
};

class Augmentation {
 public:
  // The largest changes that are drawn: in degrees, fractions, and levels of a byte.
  static constexpr double kMostTurned = 2.0, kMostScaled = 0.06, kMostBrighter = 24, kMostContrast = 0.15;
  // Pixels are read from a picture of this many times the result's sides, so that turning it costs no sharpness.
  static constexpr int kOversampling = 2;

  // The default changes nothing.
  Augmentation() = default;
  // `aspect` is the page's width over its height, in pixels. `strength`, 0 to 1, scales the geometric changes (not the
  // colours), so that a page whose words would leave it can be moved less.
  static Augmentation draw(const AugmentationKey& key, double aspect, double strength);

  // True if a box, once moved, still lies on the page.
  bool keeps(const Box1000& box) const;
  // Returns the upright box around the moved one, within 0 to 1000.
  Box1000 move(const Box1000& box) const;

  // `source` has R, G, B bytes of kOversampling times `width` x `height` pixels; `out` has `width` x `height`. Pixels
  // beyond the page take its edge's colour. `buffer` is kept from call to call.
  void apply(std::span<const std::uint8_t> source, int width, int height, std::vector<std::uint8_t>& buffer,
             std::span<std::uint8_t> out) const;

 private:
  struct Point {
    double x, y;
  };
  struct Bounds {
    double left, top, right, bottom;
  };
  // Return, in the unit square, where a point of the page goes, and where a point of the result comes from.
  Point moved(Point p) const;
  Point source_of(Point p) const;
  // Returns the bounds of a moved box, in thousandths, not clamped.
  Bounds bounds(const Box1000& box) const;
  void blur(int width, int height, std::vector<std::uint8_t>& buffer, std::span<std::uint8_t> out) const;

  bool moves_ = false;
  std::array<double, 4> matrix_ = {1, 0, 0, 1};  // x' = m0 x + m1 y, y' = m2 x + m3 y, about the page's middle
  double shift_x_ = 0, shift_y_ = 0;
  double contrast_ = 1, brightness_ = 0;
  int blur_ = 0;  // in 1/256: 0 means none, 256 a blur of three pixels
};

}  // namespace plimsoll
