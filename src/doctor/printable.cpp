#include <algorithm>

#include "doctor/diagnosis.h"

namespace plimsoll::doctor {

std::string printable(std::string_view text, std::size_t limit) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() < limit;) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80                ? 1
                               : c >= 0xC2 && c < 0xE0 ? 2
                               : c >= 0xE0 && c < 0xF0 ? 3
                               : c >= 0xF0 && c < 0xF5 ? 4
                                                       : 0;
    bool valid = length > 0 && i + length <= text.size() && !(c < 0x20 || c == 0x7F);
    for (std::size_t k = 1; valid && k < length; ++k) valid = (static_cast<unsigned char>(text[i + k]) & 0xC0U) == 0x80;
    // Replaces overlong forms, surrogates, values beyond the last code point, and C1 controls, which some terminals
    // obey.
    if (valid && length >= 2) {
      const auto d = static_cast<unsigned char>(text[i + 1]);
      if ((c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) || (c == 0xF4 && d > 0x8F) ||
          (c == 0xC2 && d < 0xA0))
        valid = false;
    }
    if (valid) {
      out += text.substr(i, length);
      i += length;
    } else {
      out += '?';
      ++i;
    }
  }
  if (text.size() > limit) out += "…";
  return out;
}

std::string printable_around(std::string_view text, Match match) {
  // The text after a match says more than the text before it.
  constexpr std::size_t kBefore = kMaxQuoteBytes / 4;
  if (text.size() <= kMaxQuoteBytes || match.end <= kMaxQuoteBytes) return printable(text);
  std::size_t begin = match.begin < kBefore ? 0 : match.begin - kBefore;
  begin = std::min(begin, text.size() - kMaxQuoteBytes);
  // A character of several bytes is not cut.
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) ++begin;
  return "…" + printable(text.substr(begin));
}

}  // namespace plimsoll::doctor
