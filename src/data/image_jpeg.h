// Reads JPEG with libjpeg, a few rows at a time: neither the file nor the picture is ever held whole.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "data/image.h"

namespace plimsoll {

// Opens gray, colour or CMYK at full size; the header must have been checked. Throws ImageError, as its rows do.
std::unique_ptr<ImageRows> open_jpeg(const std::filesystem::path& path);

// Sets the size and the number of components. Throws ImageError with libjpeg's message.
void read_jpeg_header(const std::filesystem::path& path, ImageInfo& info);

// Makes the error "a page's image cannot be decoded"; `why` is the decoder's message.
ImageError broken_image(const std::filesystem::path& path, std::string_view format, std::string_view why = "");

}  // namespace plimsoll
