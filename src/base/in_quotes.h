// Text from a file, as a message shows it.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Returns the text with control characters as \x.., so that a name in a file can neither end a line of a message nor
// move a terminal's cursor. Those in `kept` stay.
std::string printable(std::string_view text, std::string_view kept = {});

// Returns the text in quotes, with control characters as \x.., cut after some 40 bytes, so that it is safe to print in
// a message.
std::string in_quotes(std::string_view text);

// Returns the text as one word of a shell's command: in apostrophes unless it is plain.
std::string shell_word(std::string_view text);

}  // namespace plimsoll
