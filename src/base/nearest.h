// Names that were misspelt.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll {

// How many letters must change to make `a` of `b` (Levenshtein), two neighbours that changed places counting one.
std::size_t edit_distance(const std::string& a, const std::string& b);

// Of `names`, the one that `given` was probably meant to be, as "did you mean …" needs it; empty if none is near.
std::string nearest(const std::string& given, const std::vector<std::string>& names);

}  // namespace plimsoll
