// Finds grapheme clusters, each of which a reader takes for one character (a letter with its accents, an emoji of
// several parts), by the rules of Unicode Standard Annex 29 with the tables of the library that `tokenizers` uses
// (tools/make_tokenizer_graphemes.py).
//
//   for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) end = grapheme_end(text, begin);
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll {

// Returns the end of the cluster that begins at `begin`, where a cluster must begin. `text` is valid UTF-8. Regional
// indicators (flags) are not joined: the caller treats clusters of six bytes or more like their single characters.
std::size_t grapheme_end(std::string_view text, std::size_t begin);

}  // namespace plimsoll
