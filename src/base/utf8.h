// Writes code points as UTF-8.
//
//   std::string text;
//   append_utf8(U'é', text);   // the bytes C3 A9
#pragma once

#include <string>

namespace plimsoll {

// Precondition: `code_point` is at most 0x10FFFF.
void append_utf8(char32_t code_point, std::string& text);

}  // namespace plimsoll
