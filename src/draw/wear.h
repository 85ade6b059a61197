// Turns clean ink into a scanned page: paper tone, uneven light, faded print, softness, speckle, creases.
//
// Invariant: no effect moves ink, so the boxes stay valid, and none hides it: ink stays at least `kLeastContrast` gray
// levels darker than its paper, except for speckle.
//
//   const Surface scan = wear(page, random);  // A8 as gray, or RGB24 if the paper has a tint
#pragma once

#include "draw/random.h"
#include "draw/sheet.h"

namespace plimsoll::draw {

inline constexpr int kLeastContrast = 60;

Surface wear(const InkedPage& page, PageRandom& random);

}  // namespace plimsoll::draw
