// The header of a BMP file. Leptonica would decode the whole file for it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"

namespace plimsoll {

struct BmpHeader {
  std::int64_t width = 0, height = 0;  // of the image, whichever row comes first
  int bits = 0;                        // of a pixel
  std::uint64_t compression = 0;       // 0: none; 3: none, with masks of the channels
  std::uint64_t pixels_at = 0;         // in the file
};

// Returns nothing for a file that is too short, or whose header is older than Windows 3's.
std::optional<BmpHeader> read_bmp_header(const InputFile& file);

}  // namespace plimsoll
