// Text that runs from right to left, in the order in which it is read.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Poppler's `pdftotext -bbox` gives the letters of a word as they stand on the page, from left to right. Returns them
// as they are read: of a word with Hebrew or Arabic letters the reverse, except for numbers and Latin letters in it. A
// word whose file gives a text for it (/ActualText), and a ligature, are in the order of reading already, which the
// output does not tell: they come out reversed, as from `pdftotext` itself.
std::string reading_order_of(std::string_view visual);

}  // namespace plimsoll
