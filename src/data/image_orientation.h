// How an image lies and how it is shown: EXIF's orientation (CIPA DC-008, tag 274), which cameras and phones write.
//
//   const int orientation = read_orientation(file, "jpeg");   // 6: turn it by 90 degrees clockwise
//   auto shown = turned(std::move(rows), orientation);
//
// Rows come out as PIL.ImageOps.exif_transpose gives them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "data/image.h"

namespace plimsoll {

// 1 (as it lies) to 8. `format`: as in ImageInfo; 1 for those that have no orientation, and where it makes no sense.
int read_orientation(const InputFile& file, std::string_view format);

// Width and height change places.
constexpr bool exchanges_sides(int orientation) { return orientation >= 5; }

// What a turned image holds beside its decoder: all of the picture, unless rows are mirrored only.
std::uint64_t turning_bytes(int orientation, int width, int height);

// `rows` themselves for orientation 1.
std::unique_ptr<ImageRows> turned(std::unique_ptr<ImageRows> rows, int orientation);

}  // namespace plimsoll
