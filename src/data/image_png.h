// Reads PNG with libpng, row by row: a picture is held whole only if it is interlaced.
#pragma once

#include <filesystem>
#include <memory>

#include "data/image.h"

namespace plimsoll {

// Opens any PNG, its header already checked, as RGB at full size. It and its rows throw libpng's message as ImageError.
std::unique_ptr<ImageRows> open_png(const std::filesystem::path& path, Alpha alpha);

// Returns whether the file may have transparent pixels: it has an alpha channel, or colours that are transparent.
bool may_be_transparent(const std::filesystem::path& path);

// An upper bound of the bytes that such rows hold.
std::uint64_t png_decode_bytes(int width, int height, bool interlaced);

}  // namespace plimsoll
