#include "data/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/in_quotes.h"

namespace plimsoll {

std::string place(const Page& page) {
  const std::string path = printable(page.file.string());
  const std::string file = page.line > 0 ? fmt::format("{}:{}", path, page.line) : path;
  return page.id.empty() ? file : fmt::format("{}, page '{}'", file, printable(page.id));
}

std::string place(const Page& page, std::size_t word) {
  const std::string text = word < page.words.size() ? fmt::format(" ({})", in_quotes(page.words[word])) : std::string();
  return fmt::format("{}, word {}{}", place(page), word, text);
}

Box1000 scale_box(const Box& box, int width, int height, BoxFormat format) {
  Box1000 scaled{};
  for (std::size_t i = 0; i < 4; ++i) {
    double value = box[i];
    if (format == BoxFormat::kPixel) value = 1000.0 * value / static_cast<double>(i % 2 == 0 ? width : height);
    constexpr double kLow = std::numeric_limits<std::int32_t>::min(), kHigh = std::numeric_limits<std::int32_t>::max();
    scaled[i] = static_cast<std::int32_t>(std::isnan(value) ? kLow : std::clamp(value, kLow, kHigh));
  }
  return scaled;
}

bool box_on_page(const Box1000& box) {
  return std::all_of(box.begin(), box.end(), [](std::int32_t value) { return value >= 0 && value <= 1000; });
}

std::string to_string(const Box& box) { return fmt::format("[{}]", fmt::join(box, ", ")); }
std::string to_string(const Box1000& box) { return fmt::format("[{}]", fmt::join(box, ", ")); }

std::size_t invalid_utf8_offset(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = at(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // The lead byte gives the length; the range of the second byte excludes overlong forms, surrogates and code points
    // above U+10FFFF.
    std::size_t length = 0;
    unsigned low = 0x80, high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) length = 2;
    if (lead >= 0xE0 && lead <= 0xEF) length = 3;
    if (lead >= 0xF0 && lead <= 0xF4) length = 4;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (length == 0 || i + length > text.size() || at(i + 1) < low || at(i + 1) > high) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if ((at(i + k) & 0xC0U) != 0x80U) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace plimsoll
