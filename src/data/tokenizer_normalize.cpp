#include "data/tokenizer_normalize.h"

#include <algorithm>

#include "base/utf8.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {

std::string composed(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  std::u32string raw;
  append_utf32(text, raw);
  std::string normalized;
  for (const char32_t code_point : UnicodeTables::instance().compose(raw)) append_utf8(code_point, normalized);
  return normalized;
}

std::string normalize_bert(std::string_view text, const BertNormalization& options) {
  const UnicodeTables& tables = UnicodeTables::instance();
  std::u32string raw, spaced, lowered;
  append_utf32(text, raw);
  for (char32_t code_point : raw) {
    if (options.clean_text) {
      if ((tables.flags(code_point) & kDropped) != 0) continue;
      if ((tables.flags(code_point) & kCleanSpace) != 0) code_point = U' ';
    }
    const bool alone = options.handle_chinese_chars && (tables.flags(code_point) & kChinese) != 0;
    if (alone) spaced += U' ';
    spaced += code_point;
    if (alone) spaced += U' ';
  }
  if (options.strip_accents) {
    spaced = tables.decompose(spaced);
    std::erase_if(spaced, [&](char32_t code_point) { return (tables.flags(code_point) & kAccent) != 0; });
  }
  if (options.lowercase) {
    for (const char32_t code_point : spaced) tables.append_lower(code_point, lowered);
  } else {
    lowered = std::move(spaced);
  }
  std::string normalized;
  for (const char32_t code_point : lowered) append_utf8(code_point, normalized);
  return normalized;
}

}  // namespace plimsoll
