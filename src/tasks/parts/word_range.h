// A range of a page's words in its JSON: `start_word`, and `end_word`, which is exclusive.
//
//   if (const auto range = read_word_range(value, page.words.size())) use(range->begin, range->end);
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace plimsoll {

// Words [begin, end).
struct WordRange {
  std::size_t begin = 0, end = 0;
};

// Returns nothing for a value without both numbers, for an empty range, and for one that leaves the page's words.
std::optional<WordRange> read_word_range(const nlohmann::json& value, std::size_t words);
// What messages allow for any page, and what they say was found on a page of this many words.
inline constexpr const char* kAllowedWordRange = "0 <= start_word < end_word <= the number of the page's words";
std::string found_word_range(const nlohmann::json& value, std::size_t words);

}  // namespace plimsoll
