// Resizing 8-bit RGB images to the byte as Pillow's `Image.resize(size, BILINEAR)` does, row by row as they come.
//
// The filter is a triangle, widened by the scale when shrinking (so it antialiases), applied along x, then along y,
// each pass in fixed point with rounding to 8 bits in between. Algorithm: Pillow's documentation and source
// (Resample.c); the constants (22 fractional bits, the window's rounding) are part of the result and so the same here.
//
// Invariant: of the source no more is held than the rows that one row of the result is made from.
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

// For each output position: which input positions count, and how much. Weights are integers of 22 fractional bits.
struct ResampleWeights {
  struct Window {
    int first = 0, count = 0;
  };
  std::vector<Window> windows;        // one per output position
  std::vector<std::int32_t> weights;  // `stride` per output position, `count` of them used
  std::size_t stride = 0;

  // Triangle filter for `input` positions onto `output`, both positive.
  void compute(int input, int output);
};

class Resampler {
 public:
  // `out`: height_out x width_out x 3 bytes, filled by the time the last row is taken.
  void begin(int width, int height, int width_out, int height_out, std::span<std::uint8_t> out);
  // Where the source's next row belongs, R, G, B bytes; then `take_row` takes it. `height` times, from the top.
  std::span<std::uint8_t> row();
  void take_row();

  // Upper bound of the bytes held while (and after) resizing images up to this size.
  static std::uint64_t host_bytes(int width, int height, int width_out, int height_out);

 private:
  // The last rows taken, as bytes that the pass along y reads: as they came if that pass is first, else narrowed.
  std::uint8_t* kept_row(int y);

  ResampleWeights along_x_, along_y_;
  bool y_first_ = false;
  std::size_t wide_ = 0, narrow_ = 0, kept_stride_ = 0;  // bytes of rows
  int taken_ = 0, made_ = 0;                             // rows of the source, of the result
  std::span<std::uint8_t> out_;
  std::vector<std::uint8_t> row_;   // of the source's width: between the passes, or before them
  std::vector<std::uint8_t> kept_;  // a ring of as many rows as a window has
  std::vector<const std::uint8_t*> rows_;
};

}  // namespace plimsoll
