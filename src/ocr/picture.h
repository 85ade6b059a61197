// A page's picture in memory, as a text reader takes it.
//
//   const Picture picture = open_picture("receipt.jpg");
//   const Picture upright = picture.turned(90);
//   upright.write_png("receipt.png");
//
// Invariant: a picture has at most kMostPixels; larger ones are shrunk while they are decoded, and `scale` says by how
// much, so that boxes can be given in the file's own pixels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

struct Pix;

namespace plimsoll {

// An A3 page at 400 dpi, or an A4 page at 600 dpi. A thread that reads holds four bytes a pixel of that, and as much
// again while it looks for lines of text.
inline constexpr std::int64_t kMostPixels = 40'000'000;
// Text readers count pixels in 16 bits.
inline constexpr int kLongestSide = 32'000;

class Picture {
 public:
  // Takes over a picture of Leptonica's, whose file has width x height pixels.
  Picture(Pix* owned, int file_width, int file_height);

  int width() const;
  int height() const;
  // The pixels of the file, as shown.
  int file_width() const { return file_width_; }
  int file_height() const { return file_height_; }
  // How many of the file's pixels one of the picture's stands for: 1, more of a picture that was shrunk, half of one
  // that was enlarged.
  double scale() const;
  // Dots per inch, or 0 where nobody knows.
  int dpi() const;
  Pix* pix() const { return pix_.get(); }

  // The height of small letters in pixels, roughly: the median of all dark spots that may be letters. 0 if there are
  // few.
  int letter_height() const;
  // Whether the picture is stored in colours though next to none of its pixels has one, as most scans are.
  bool is_gray_in_colours() const;
  // The picture in gray: a quarter of the bytes of one in colours. For reading only.
  Picture gray() const;
  // The picture at twice its size, in gray: `scale` is halved. For reading only.
  Picture enlarged() const;
  // A quarter of the picture: its middle rows.
  Picture middle() const;
  // The picture turned clockwise by 90, 180 or 270 degrees.
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

// Opens a file with one picture (PNG, JPEG, BMP, PNM; of a TIFF the first page), turned by its EXIF orientation. Throws
// ImageError.
Picture open_picture(const std::filesystem::path& path);

// The number of pages of a TIFF file. Throws ImageError.
int count_tiff_pages(const std::filesystem::path& path);
// Opens a page of a TIFF file, from 0. Throws ImageError.
Picture open_tiff_page(const std::filesystem::path& path, int page);

}  // namespace plimsoll
