// The order in which a page is read: blocks of text that stand side by side one after the other, tables and lists of
// prices line by line.
//
//   for (const std::size_t word : reading_order(boxes, words)) use(words[word]);
//
// Tesseract's own blocks are a matter of chance on a page with narrow gaps: the same form comes in another order from
// scan to scan, and an address may be torn apart by what stands beside it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/page.h"

namespace plimsoll {

// Returns the indices of the words in reading order. `boxes` and `words` have equal counts.
std::vector<std::size_t> reading_order(std::span<const Box> boxes, std::span<const std::string> words);

}  // namespace plimsoll
