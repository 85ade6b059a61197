// Reads the container of WebP files (RFC 9649), a list of chunks; Leptonica decodes the picture.
//
//   const std::optional<WebpContainer> webp = read_webp_container(file);   // nothing: its beginning is cut
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"

namespace plimsoll {

struct WebpContainer {
  std::uint64_t bytes = 0;                 // of the whole file, as its header says
  bool is_animated = false;                // several pictures
  std::optional<std::uint64_t> exif = {};  // where the TIFF structure of its EXIF data begins
};

// The file must begin as WebP does.
std::optional<WebpContainer> read_webp_container(const InputFile& file);

}  // namespace plimsoll
