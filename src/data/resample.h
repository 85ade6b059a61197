// Resizes 8-bit RGB images to the same bytes as Pillow's `Image.resize(size, BILINEAR)`, row by row as they arrive.
//
// The filter is a triangle, widened by the scale when shrinking (so it antialiases), applied along x, then along y,
// each pass in fixed point with rounding to 8 bits in between. The algorithm follows Pillow's documentation and source
// (Resample.c); its constants (22 fractional bits, the window's rounding) affect the result, so they are the same here.
//
// Invariant: no more of the source is held than the rows from which one row of the result is made.
//
//   Resampler resampler;                              // keeps its buffers from image to image
//   resampler.begin(457, 1000, 224, 224, out);
//   for (int y = 0; y < 1000; ++y) { image.next_row(resampler.row()); resampler.take_row(); }
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// The input positions that each output position uses, and their weights, integers with 22 fractional bits.
struct ResampleWeights {
  struct Window {
    int first = 0, count = 0;
  };
  std::vector<Window> windows;        // one per output position
  std::vector<std::int32_t> weights;  // `stride` per output position, `count` of them used
  std::size_t stride = 0;

  // Computes a triangle filter from `input` positions to `output`, both positive.
  void compute(int input, int output);
};

class Resampler {
 public:
  // `out` takes height_out x width_out x 3 bytes, filled by the time the last row is taken.
  void begin(int width, int height, int width_out, int height_out, std::span<std::uint8_t> out);
  // Returns the buffer for the source's next row, R, G, B bytes; `take_row` must follow, `height` times in all.
  std::span<std::uint8_t> row();
  void take_row();

  // An upper bound of the bytes held while (and after) resizing images up to this size.
  static std::uint64_t host_bytes(int width, int height, int width_out, int height_out);

 private:
  // Returns one of the last rows taken, which the pass along y reads: unchanged if that pass is first, else narrowed.
  std::uint8_t* kept_row(int y);

  ResampleWeights along_x_, along_y_;
  bool y_first_ = false;
  std::size_t wide_ = 0, narrow_ = 0, kept_stride_ = 0;  // bytes of rows
  int taken_ = 0, made_ = 0;                             // rows of the source, of the result
  std::span<std::uint8_t> out_;
  std::vector<std::uint8_t> row_;   // has the source's width: between the passes, or before them
  std::vector<std::uint8_t> kept_;  // a ring of as many rows as a window has
  std::vector<const std::uint8_t*> rows_;
};

}  // namespace plimsoll
