#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

constexpr std::uint32_t kStream = 0x41554731;  // separates these numbers from the order of pages and from dropout

// Returns a number from -1 to 1.
double symmetric(std::uint32_t bits) { return 2.0 * uniform_float(bits) - 1.0; }

}  // namespace

Augmentation Augmentation::draw(const AugmentationKey& key, double aspect, double strength) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  const PhiloxKey seed = {low(key.seed), high(key.seed)};
  const PhiloxOutput place = philox4x32({key.page, low(key.epoch), high(key.epoch), kStream}, seed);
  const PhiloxOutput colour = philox4x32({key.page, low(key.epoch), high(key.epoch), kStream + 1}, seed);

  Augmentation drawn;
  drawn.contrast_ = 1 + kMostContrast * symmetric(colour[0]);
  drawn.brightness_ = kMostBrighter * symmetric(colour[1]);
  // Half of the pages stay sharp.
  drawn.blur_ = static_cast<int>(256 * std::max(0.0, symmetric(colour[2])));
  if (strength == 0) return drawn;
  drawn.moves_ = true;
  const double angle = strength * kMostTurned * symmetric(place[0]) * std::numbers::pi / 180;
  const double scale = 1 + strength * kMostScaled * symmetric(place[1]);
  // The transformation is a rotation in pixels; the unit square is stretched by the page's sides.
  drawn.matrix_ = {scale * std::cos(angle), -scale * std::sin(angle) / aspect, scale * std::sin(angle) * aspect,
                   scale * std::cos(angle)};
  // A page scaled up is cut at a random place; one scaled down is put at a random place.
  drawn.shift_x_ = std::abs(scale - 1) / 2 * symmetric(place[2]);
  drawn.shift_y_ = std::abs(scale - 1) / 2 * symmetric(place[3]);
  return drawn;
}

Augmentation::Point Augmentation::moved(Point p) const {
  const double x = p.x - 0.5, y = p.y - 0.5;
  return {0.5 + matrix_[0] * x + matrix_[1] * y + shift_x_, 0.5 + matrix_[2] * x + matrix_[3] * y + shift_y_};
}

Augmentation::Point Augmentation::source_of(Point p) const {
  const double x = p.x - 0.5 - shift_x_, y = p.y - 0.5 - shift_y_;
  const double determinant = matrix_[0] * matrix_[3] - matrix_[1] * matrix_[2];
  return {0.5 + (matrix_[3] * x - matrix_[1] * y) / determinant, 0.5 + (matrix_[0] * y - matrix_[2] * x) / determinant};
}

Augmentation::Bounds Augmentation::bounds(const Box1000& box) const {
  Bounds all{1e9, 1e9, -1e9, -1e9};
  for (const int x : {box[0], box[2]}) {
    for (const int y : {box[1], box[3]}) {
      const Point corner = moved({x / 1000.0, y / 1000.0});
      all.left = std::min(all.left, 1000 * corner.x);
      all.top = std::min(all.top, 1000 * corner.y);
      all.right = std::max(all.right, 1000 * corner.x);
      all.bottom = std::max(all.bottom, 1000 * corner.y);
    }
  }
  return all;
}

bool Augmentation::keeps(const Box1000& box) const {
  if (!moves_) return true;
  const Bounds all = bounds(box);
  return all.left >= 0 && all.top >= 0 && all.right <= 1000 && all.bottom <= 1000;
}

Box1000 Augmentation::move(const Box1000& box) const {
  if (!moves_) return box;
  const Bounds all = bounds(box);
  const auto within = [](double value) { return static_cast<std::int32_t>(std::clamp(value, 0.0, 1000.0)); };
  return {within(std::floor(all.left)), within(std::floor(all.top)), within(std::ceil(all.right)),
          within(std::ceil(all.bottom))};
}

// Each pixel is the mean of four bilinear samples, one in the middle of each of its quarters.
void Augmentation::apply(std::span<const std::uint8_t> source, int width, int height, std::vector<std::uint8_t>& buffer,
                         std::span<std::uint8_t> out) const {
  constexpr int kSide = kOversampling, kFraction = 8, kOne = 1 << kFraction;
  const int wide = kSide * width, high = kSide * height;
  check(source.size() == 3 * static_cast<std::size_t>(wide) * static_cast<std::size_t>(high) &&
            out.size() == 3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height),
        "an augmented picture has its source's sides, halved");
  std::array<std::uint8_t, 256> tone;
  for (int level = 0; level < 256; ++level) {
    const double value = (level - 128) * contrast_ + 128 + brightness_;
    tone[static_cast<std::size_t>(level)] = static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
  }
  // Positions in the source are in 1/256 of a pixel; half a pixel of the result along x is the same step everywhere.
  const auto position = [&](double x, double y) {
    const Point p = source_of({x / wide, y / high});
    return Point{(p.x * wide - 0.5) * kOne, (p.y * high - 0.5) * kOne};
  };
  const Point origin = position(0.5, 0.5), right = position(1.5, 0.5);
  const Point step{right.x - origin.x, right.y - origin.y};
  const auto fixed = [](double value, int pixels) {
    return static_cast<int>(std::lround(std::clamp(value, 0.0, static_cast<double>((pixels - 1) * kOne))));
  };
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(wide);
  for (int y = 0; y < height; ++y) {
    const std::array<Point, 2> first = {position(0.5, kSide * y + 0.5), position(0.5, kSide * y + 1.5)};
    for (int x = 0; x < width; ++x) {
      std::array<int, 3> sum{};
      for (int quarter = 0; quarter < 4; ++quarter) {
        const Point& left = first[static_cast<std::size_t>(quarter / 2)];
        const int along = kSide * x + quarter % 2;
        const int px = fixed(left.x + step.x * along, wide), py = fixed(left.y + step.y * along, high);
        const int fx = px % kOne, fy = py % kOne;
        const std::uint8_t* at = source.data() + row_bytes * static_cast<std::size_t>(py / kOne) + 3 * (px / kOne);
        const std::size_t beside = fx > 0 ? 3 : 0, below = fy > 0 ? row_bytes : 0;
        for (std::size_t c = 0; c < 3; ++c) {
          const int upper = at[c] * (kOne - fx) + at[beside + c] * fx;
          const int lower = at[below + c] * (kOne - fx) + at[below + beside + c] * fx;
          sum[c] += (upper * (kOne - fy) + lower * fy) >> kFraction;
        }
      }
      std::uint8_t* to = out.data() + 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                                           static_cast<std::size_t>(x));
      for (std::size_t c = 0; c < 3; ++c) to[c] = tone[static_cast<std::size_t>((sum[c] + 2 * kOne) / (4 * kOne))];
    }
  }
  if (blur_ > 0) blur(width, height, buffer, out);
}

// Blurs with weights 1 2 1 along both sides, mixed with the sharp picture.
void Augmentation::blur(int width, int height, std::vector<std::uint8_t>& buffer, std::span<std::uint8_t> out) const {
  buffer.assign(out.begin(), out.end());
  const auto row = 3 * static_cast<std::size_t>(width);
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* middle = buffer.data() + row * static_cast<std::size_t>(y);
    const std::uint8_t* above = y > 0 ? middle - row : middle;
    const std::uint8_t* below = y + 1 < height ? middle + row : middle;
    const auto column = [&](std::size_t i) { return above[i] + 2 * middle[i] + below[i]; };
    for (std::size_t i = 0; i < row; ++i) {
      const int soft = column(i < 3 ? i : i - 3) + 2 * column(i) + column(i + 3 < row ? i + 3 : i);  // in sixteenths
      const std::size_t at = row * static_cast<std::size_t>(y) + i;
      out[at] = static_cast<std::uint8_t>((middle[i] * 16 * (256 - blur_) + soft * blur_ + 2048) >> 12);
    }
  }
}

}  // namespace plimsoll
