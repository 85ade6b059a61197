// JPEG by libjpeg, a few rows at a time: neither the file nor the picture is ever held whole.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "data/image.h"

namespace plimsoll {

// Gray or colour, at full size; the header has been looked at. Throws ImageError, as its rows do.
std::unique_ptr<ImageRows> open_jpeg(const std::filesystem::path& path);

// Fills in size and number of components. Throws ImageError with what libjpeg says.
void read_jpeg_header(const std::filesystem::path& path, ImageInfo& info);

// "a page's image cannot be decoded"; `why`: the decoder's own words.
ImageError broken_image(const std::filesystem::path& path, std::string_view format, std::string_view why = "");

}  // namespace plimsoll
