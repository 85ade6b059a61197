// Page images: a cheap header read first, then rows whose decoding takes an amount of memory known before it begins.
//
// libjpeg decodes JPEG, libpng PNG and our own code BMP, a few rows at a time; Leptonica decodes TIFF, PNM and WebP
// whole.
// Pixels equal `PIL.ImageOps.exif_transpose(PIL.Image.open(path)).convert("RGB")`, as in Hugging Face's loaders: an
// image is turned according to its EXIF orientation, as viewers show it, a palette is looked up, gray is repeated,
// alpha is dropped, inks (CMYK) become colours. Width and height, and boxes in pixels, are those of the turned image.
// One difference is intended: 16-bit gray keeps its high byte, where Pillow clips everything above 255 to white.
//
//   const ImageInfo info = read_image_info(path);   // throws before anything large is read
//   const auto image = open_image(path);            // holds at most info.decode_bytes from here on
//   for (int y = 0; y < image->height(); ++y) image->next_row(row);
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace plimsoll {

// A compressed file of a few kilobytes can claim any size; beyond this one it is refused from its header.
inline constexpr std::uint64_t kMaxImagePixels = 200'000'000;

struct ImageInfo {
  int width = 0, height = 0;  // as shown
  int orientation = 1;        // the EXIF orientation, 1 to 8, by which the file's rows were turned
  int bits_per_sample = 0, samples_per_pixel = 0;
  bool palette = false;
  std::string format;              // "png", "jpeg", "tiff", "pnm", "bmp", "webp"
  std::uint64_t decode_bytes = 0;  // upper bound of the bytes that an `ImageRows` holds at its peak
};

// `kind` groups the findings: "image-missing", "image-unreadable", "image-kind", "image-too-large".
class ImageError : public DataError {
 public:
  ImageError(std::string kind, Problem problem) : DataError(std::move(problem)), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// Reads only the header and the end mark. Throws ImageError: missing, cut, not an image, an unsupported kind (GIF, …),
// too large.
ImageInfo read_image_info(const std::filesystem::path& path);

// The rows of an image from the top, each read once.
class ImageRows {
 public:
  ImageRows(int width, int height) : width_(width), height_(height) {}
  ImageRows(const ImageRows&) = delete;
  ImageRows& operator=(const ImageRows&) = delete;
  virtual ~ImageRows() = default;

  int width() const { return width_; }
  int height() const { return height_; }
  // Reads the next row as R, G, B bytes; `out` has 3 * width. Throws ImageError if the data is broken; must not be
  // called more than `height` times.
  virtual void next_row(std::span<std::uint8_t> out) = 0;
  // True if the decoder has met bad data in the rows so far and gone on, as Pillow does: the picture may be damaged.
  virtual bool damaged() const = 0;

 private:
  int width_, height_;
};

// A file's transparency is dropped, as Pillow's convert("RGB") does, so that a transparent pixel has whatever colour is
// stored, often black; or it lets white paper through. A TIFF whose stored colours libtiff does not tell is refused.
enum class Alpha : std::uint8_t { kDropped, kOnWhite };

// Thread-safe. Throws ImageError as above, or if the data is broken or cut.
std::unique_ptr<ImageRows> open_image(const std::filesystem::path& path, Alpha alpha = Alpha::kDropped);

// Reads all rows and resizes them, as Resampler does, into `out`: height x width x 3 bytes.
void read_resized(ImageRows& rows, int width, int height, std::span<std::uint8_t> out);

}  // namespace plimsoll
