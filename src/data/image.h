// Page images: a header read that costs nothing, then a decode whose memory was known before it began.
//
// Leptonica decodes (PNG, JPEG, TIFF, PNM, BMP); pixels come out as `PIL.Image.open(path).convert("RGB")` gives them: a
// palette is looked up, gray is repeated, alpha is dropped, no EXIF rotation. One difference on purpose: 16-bit gray
// keeps its high byte, where Pillow clips everything above 255 to white.
//
//   const ImageInfo info = read_image_info(path);    // throws before anything large is read
//   const DecodedImage image = decode_image(path);   // at most info.decode_bytes at its peak
//   image.rgb_row(y, row);
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

struct Pix;

namespace plimsoll {

// A compressed file of a few kilobytes can claim any size: beyond this it is refused by its header.
inline constexpr std::uint64_t kMaxImagePixels = 200'000'000;

struct ImageInfo {
  int width = 0, height = 0;
  int bits_per_sample = 0, samples_per_pixel = 0;
  bool palette = false;
  std::string format;              // "png", "jpeg", "tiff", "pnm", "bmp"
  std::uint64_t decode_bytes = 0;  // upper bound of what `decode_image` holds at its peak
};

// `kind`, by which findings are grouped: "image-missing", "image-unreadable", "image-kind", "image-too-large".
class ImageError : public DataError {
 public:
  ImageError(std::string kind, Problem problem) : DataError(std::move(problem)), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// Reads the header and the end mark only. Throws ImageError: not there, cut, no image, a kind that is not read (GIF,
// CMYK, …), too large.
ImageInfo read_image_info(const std::filesystem::path& path);

class DecodedImage {
 public:
  explicit DecodedImage(Pix* owned, bool damaged);
  int width() const { return width_; }
  int height() const { return height_; }
  // The decoder met bad data and went on, as Pillow does: the picture may show it.
  bool damaged() const { return damaged_; }
  // Row `y` as R, G, B bytes; `out` has 3 * width.
  void rgb_row(int y, std::span<std::uint8_t> out) const;

 private:
  struct Destroy {
    void operator()(Pix* pix) const;
  };
  std::unique_ptr<Pix, Destroy> pix_;
  int width_ = 0, height_ = 0, depth_ = 0;
  bool damaged_ = false;
  std::array<std::array<std::uint8_t, 3>, 256> colours_{};  // of a pixel's value, depth 8 and less
};

// Thread-safe. Throws ImageError as above, or if the data is broken or cut.
DecodedImage decode_image(const std::filesystem::path& path);

}  // namespace plimsoll
