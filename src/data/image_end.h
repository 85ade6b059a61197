// Finds out whether an image file is cut, from its structure alone, before a decoder runs.
#pragma once

#include "base/file.h"
#include "data/image.h"

namespace plimsoll {

// True if PNG or JPEG lack their end marks (some writers add bytes after them), PNM or BMP are shorter than
// their pixels, WebP than its header says, or a TIFF's first page has strips or tiles beyond the end of the file. Other
// formats: false.
bool ends_too_early(const InputFile& file, const ImageInfo& info);

// True if the first bytes are those of a TIFF, whatever follows.
bool begins_like_tiff(const InputFile& file);

}  // namespace plimsoll
