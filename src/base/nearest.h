// Names that were misspelt.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

// Of `names`, the one that `given` was probably meant to be, as "did you mean …" needs it; empty if none is near.
std::string nearest(const std::string& given, const std::vector<std::string>& names);

}  // namespace plimsoll
