#include "ocr/visual_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "data/page.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

bool is_arabic_digit(char32_t c) { return is_between(c, 0x660, 0x669) || is_between(c, 0x6F0, 0x6F9); }

bool is_mark(char32_t c) {
  return is_between(c, 0x591, 0x5BD) || c == 0x5BF || is_between(c, 0x5C1, 0x5C2) || is_between(c, 0x5C4, 0x5C5) ||
         c == 0x5C7 || is_between(c, 0x610, 0x61A) || is_between(c, 0x64B, 0x65F) || c == 0x670 ||
         is_between(c, 0x300, 0x36F);
}

// Hebrew, Arabic, Syriac and their like, and the forms that Arabic letters have in fonts.
bool runs_left(char32_t c) {
  return (is_between(c, 0x590, 0x8FF) || is_between(c, 0xFB1D, 0xFDFF) || is_between(c, 0xFE70, 0xFEFE)) &&
         !is_arabic_digit(c) && !is_mark(c);
}

bool is_neutral(char32_t c) {
  return c < 0x80 && !(is_between(c, U'0', U'9') || is_between(c, U'A', U'Z') || is_between(c, U'a', U'z'));
}

// What is drawn as ( where text runs from right to left is written ).
char32_t mirrored(char32_t c) {
  constexpr std::u32string_view kPairs = U"()[]{}<>\u00AB\u00BB";
  const std::size_t at = kPairs.find(c);
  return at == std::u32string_view::npos ? c : kPairs[at ^ 1U];
}

}  // namespace

std::string reading_order_of(std::string_view visual) {
  if (invalid_utf8_offset(visual) != std::string_view::npos) return std::string(visual);
  std::u32string letters;
  append_utf32(visual, letters);
  if (std::ranges::none_of(letters, runs_left)) return std::string(visual);
  // A letter and its marks stay together.
  std::vector<std::u32string> clusters;
  for (const char32_t letter : letters) {
    if (is_mark(letter) && !clusters.empty()) {
      clusters.back() += letter;
    } else {
      clusters.emplace_back(1, letter);
    }
  }
  std::ranges::reverse(clusters);
  const auto runs_right = [](const std::u32string& cluster) {
    return !runs_left(cluster[0]) && !is_neutral(cluster[0]);
  };
  for (std::size_t begin = 0; begin < clusters.size();) {
    if (!runs_right(clusters[begin])) {
      clusters[begin][0] = mirrored(clusters[begin][0]);
      ++begin;
      continue;
    }
    // 12.50 and A-4 are one run.
    std::size_t end = begin + 1;
    for (std::size_t i = end; i < clusters.size() && !runs_left(clusters[i][0]); ++i) {
      if (runs_right(clusters[i])) end = i + 1;
    }
    std::reverse(clusters.begin() + static_cast<std::ptrdiff_t>(begin),
                 clusters.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  std::string read;
  for (const std::u32string& cluster : clusters) {
    for (const char32_t letter : cluster) append_utf8(letter, read);
  }
  return read;
}

}  // namespace plimsoll
