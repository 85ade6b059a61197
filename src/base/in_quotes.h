// Text from a file, as a message shows it.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Returns the text in quotes, with control characters as \x.., cut after some 40 bytes, so that it is safe to print in
// a message.
std::string in_quotes(std::string_view text);

}  // namespace plimsoll
