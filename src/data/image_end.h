// Whether an image file was cut, found out from its frame alone, before a decoder runs.
#pragma once

#include "base/file.h"
#include "data/image.h"

namespace plimsoll {

// PNG and JPEG have lost their end marks (some writers add bytes after them), PNM is shorter than its pixels, a TIFF's
// first page has strips or tiles beyond the end of the file. Other formats: false.
bool ends_too_early(const InputFile& file, const ImageInfo& info);

// A TIFF by its first bytes, whatever follows.
bool begins_like_tiff(const InputFile& file);

}  // namespace plimsoll
