// Checks a page's pixels, beyond whether they can be read.
#pragma once

#include "data/findings.h"
#include "data/page.h"

namespace plimsoll {

// Decodes the page's image and adds "image-damaged", "image-blank" or "image-bgr" (all warnings). Throws ImageError if
// it cannot be decoded.
void check_pixels(const Page& page, Findings& findings);

}  // namespace plimsoll
