// From clean ink to a scanned page: paper tone, uneven light, faded print, softness, speckle, creases.
//
// Invariant: no effect moves ink, so that the boxes stay true, and none hides it: ink stays at least `kLeastContrast`
// gray levels darker than its paper, speckle apart.
//
//   const Surface scan = wear(page, random);  // A8 as gray, or RGB24 where the paper has a tint
#pragma once

#include "draw/random.h"
#include "draw/sheet.h"

namespace plimsoll::draw {

inline constexpr int kLeastContrast = 60;

Surface wear(const InkedPage& page, PageRandom& random);

}  // namespace plimsoll::draw
