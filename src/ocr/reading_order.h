// The order in which a page is read: blocks of text side by side are read one after the other, tables and lists of
// prices line by line.
//
//   for (const std::size_t word : reading_order(boxes, words)) use(words[word]);
//
// Tesseract's own blocks are unreliable on a page with narrow gaps: the order of the same form differs from scan to
// scan, and an address may be split by text beside it.
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
