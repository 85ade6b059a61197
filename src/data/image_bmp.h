// Reads BMP files whose pixels are not compressed, a row at a time. Leptonica would hold the whole file, takes red for
// blue where a pixel has 32 bits, and 16 bits for gray.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/file.h"
#include "data/image.h"

namespace plimsoll {

struct BmpHeader {
  std::int64_t width = 0, height = 0;         // of the image, whichever row comes first
  bool top_down = false;                      // the first row of the file is the top one
  int bits = 0;                               // of a pixel
  std::uint64_t pixels_at = 0;                // in the file
  std::uint64_t colours_at = 0, colours = 0;  // of the palette
  std::array<std::uint32_t, 3> masks{};       // of red, green, blue in a pixel of 16 bits or more

  // Returns the bytes of a row, which is a multiple of four.
  std::uint64_t row_bytes() const { return (static_cast<std::uint64_t>(width * bits) + 31) / 32 * 4; }
};

// Returns nothing for a file that is too short, whose header is older than Windows 3's, or whose pixels are in a form
// that open_bmp does not read: compressed, or with masks other than those that Pillow reads.
std::optional<BmpHeader> read_bmp_header(const InputFile& file);

// `header` is the file's. Rows throw ImageError where the file ends too early.
std::unique_ptr<ImageRows> open_bmp(const std::filesystem::path& path, const BmpHeader& header);

}  // namespace plimsoll
