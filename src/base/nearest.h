// Suggestions for misspelt names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll {

// The number of letters to change to turn `a` into `b` (Levenshtein); a swap of two neighbours counts as one.
std::size_t edit_distance(const std::string& a, const std::string& b);

// Returns the name that `given` was probably meant to be, for "did you mean …"; empty if none is close.
std::string nearest(const std::string& given, const std::vector<std::string>& names);

}  // namespace plimsoll
