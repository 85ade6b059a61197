#include "base/in_quotes.h"

#include <fmt/format.h>

namespace plimsoll {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::size_t end = text.size();
  if (end > kLongest) {
    end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // do not cut inside a character
  }
  std::string out = "\"";
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (end < text.size() ? "…\"" : "\"");
}

}  // namespace plimsoll
