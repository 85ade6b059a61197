// Learns a byte pair encoding: greedily finds the merges that make counted pieces of text shortest.
// tools/vocabulary/make_vocabulary.cpp uses it to make the embedded vocabulary.
//
//   PieceCounts counts;
//   count_pieces(" TOTAL: 12.90", 3, counts);                  // " TOTAL" 3, ":" 3, " 12" 3, "." 3, "90" 3
//   std::string merges = train_merges(counts, 500);            // "T O\nTO T\n..."; see vocabulary_from_merges
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll {

// The map is ordered, so that training does not depend on a hash.
using PieceCounts = std::map<std::string, std::uint64_t, std::less<>>;

// Cuts `text` (valid UTF-8) as the tokenizer does and adds `weight` to each piece's count.
void count_pieces(std::string_view text, std::uint64_t weight, PieceCounts& counts);

// Adds at most `new_entries` entries beyond the bytes, each by merging the most frequent neighbouring pair (of equals,
// the one whose left, then right text comes first); fewer if no pair occurs twice. Returns a line for each merge, in
// the byte alphabet.
std::string train_merges(const PieceCounts& counts, std::size_t new_entries);

}  // namespace plimsoll
