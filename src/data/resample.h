// Resizing 8-bit RGB images to the byte as Pillow's `Image.resize(size, BILINEAR)` does.
//
// The filter is a triangle, widened by the scale when shrinking (so it antialiases), applied along x, then along y,
// each pass in fixed point with rounding to 8 bits in between. Algorithm: Pillow's documentation and source
// (Resample.c); the constants (22 fractional bits, the window's rounding) are part of the result and so the same here.
//
//   Resampler resampler;                              // keeps its buffers from image to image
//   resampler.resize(source_rows, 457, 1000, 224, 224, out);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  // Fills `out` with row y of the source, R, G, B bytes; may be asked for a row twice.
  using ReadRow = std::function<void(int y, std::span<std::uint8_t> out)>;

  // `out`: height_out x width_out x 3 bytes.
  void resize(const ReadRow& read_row, int width, int height, int width_out, int height_out,
              std::span<std::uint8_t> out);

  // Upper bound of the bytes held while (and after) resizing such an image.
  static std::uint64_t host_bytes(int width, int height, int width_out, int height_out);

 private:
  // The pass along x for one row.
  void resize_row(std::span<const std::uint8_t> in, std::span<std::uint8_t> out) const;

  ResampleWeights along_x_, along_y_;
  std::vector<std::uint8_t> row_;     // one row of the source's width
  std::vector<std::int32_t> sums_;    // of the pass along y, for one row
  std::vector<std::uint8_t> narrow_;  // height x width_out x 3: after the pass along x, if it is first
};

}  // namespace plimsoll
