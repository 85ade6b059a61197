// PNG by libpng, row by row: the picture is held whole only where its rows are interlaced.
#pragma once

#include <filesystem>
#include <memory>

#include "data/image.h"

namespace plimsoll {

// Any PNG, as RGB at full size; the header has been looked at. Throws ImageError with what libpng says, as its rows do.
std::unique_ptr<ImageRows> open_png(const std::filesystem::path& path);

// Upper bound of what such rows hold.
std::uint64_t png_decode_bytes(int width, int height, bool interlaced);

}  // namespace plimsoll
