// Handles an image's EXIF orientation (CIPA DC-008, tag 274), which cameras and phones write.
//
//   const int orientation = read_orientation(file, "jpeg");   // 6: turn it by 90 degrees clockwise
//   auto shown = turned(std::move(rows), orientation);
//
// Rows come out as PIL.ImageOps.exif_transpose returns them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "data/image.h"

namespace plimsoll {

// Returns 1 (unchanged) to 8. `format` is ImageInfo's; formats without orientation and invalid values give 1.
int read_orientation(const InputFile& file, std::string_view format);

// True if the orientation exchanges width and height.
constexpr bool exchanges_sides(int orientation) { return orientation >= 5; }

// Returns the bytes that a turned image holds besides its decoder: the whole picture, unless rows are only mirrored.
std::uint64_t turning_bytes(int orientation, int width, int height);

// Returns `rows` itself for orientation 1.
std::unique_ptr<ImageRows> turned(std::unique_ptr<ImageRows> rows, int orientation);

}  // namespace plimsoll
