// A page's picture in memory, in the form that a text reader needs.
//
//   const Picture picture = open_picture("receipt.jpg");
//   const Picture upright = picture.turned(90);
//   upright.write_png("receipt.png");
//
// Invariant: a picture has at most kMostPixels; larger ones are shrunk while they are decoded, and `scale` says by how
// much, so that boxes can be given in the file's own pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "data/page.h"

struct Pix;

namespace plimsoll {

// An A3 page at 400 dpi, or an A4 page at 600 dpi.
inline constexpr std::int64_t kMostPixels = 40'000'000;
// Text readers count pixels in 16 bits.
inline constexpr int kLongestSide = 32'000;

class Picture {
 public:
  // Takes over a picture of Leptonica's, whose file has width x height pixels.
  Picture(Pix* owned, int file_width, int file_height);

  int width() const;
  int height() const;
  // Return the size of the file's picture, as shown.
  int file_width() const { return file_width_; }
  int file_height() const { return file_height_; }
  // Returns how many of the file's pixels one pixel here represents, along a side: 1; more if the picture was shrunk, a
  // half if it was enlarged.
  double scale() const;
  // Returns the dots per inch, or 0 if unknown.
  int dpi() const;
  Pix* pix() const { return pix_.get(); }

  // Returns the approximate height of small letters in pixels: the median of all dark spots that may be letters; 0 if
  // there are few.
  int letter_height() const;
  // Returns whether the picture is stored in colours although almost all of its pixels are gray, like most scans.
  bool is_gray_in_colours() const;
  // Returns the picture in gray, which takes a quarter of the bytes of one in colours. For reading only.
  Picture gray() const;
  // Returns the picture at twice its size, in gray: `scale` is halved. For reading only.
  Picture enlarged() const;
  // Returns which share of the dark pixels lies within these boxes, in pixels of the picture; 1 if there are none.
  double ink_within(std::span<const Box> boxes) const;
  // Returns a quarter of the picture: its middle rows.
  Picture middle() const;
  // Returns the picture turned clockwise by 90, 180 or 270 degrees.
  Picture turned(int degrees) const;
  // Writes the picture as a PNG file in one step. Throws EnvironmentError.
  void write_png(const std::filesystem::path& path) const;

 private:
  struct Destroy {
    void operator()(Pix* pix) const;
  };
  std::unique_ptr<Pix, Destroy> pix_;
  int file_width_, file_height_;
};

// Describes a picture before it is opened, from its header.
struct PictureForm {
  std::int64_t pixels = 0;       // of the file's picture
  bool in_colours = true;        // four bytes a pixel in memory; otherwise at most one
  std::size_t decode_bytes = 0;  // at most held while it is decoded, besides the picture that is returned
};

// Return the form of what open_picture and open_tiff_page return. Throw ImageError.
PictureForm picture_form(const std::filesystem::path& path);
PictureForm tiff_page_form(const std::filesystem::path& path, int page);

// Opens a file with one picture (PNG, JPEG, BMP, PNM, WebP, or the first page of a TIFF), turned by its EXIF orientation;
// transparent pixels are white. Throws ImageError.
Picture open_picture(const std::filesystem::path& path);
// Returns whether a model, which sees the colours of transparent pixels, would see another picture. Throws ImageError.
bool is_transparent(const std::filesystem::path& path);

// Returns the number of pages of a TIFF file. Throws ImageError.
int count_tiff_pages(const std::filesystem::path& path);
// Opens a page of a TIFF file, from 0. Throws ImageError.
Picture open_tiff_page(const std::filesystem::path& path, int page);

}  // namespace plimsoll
