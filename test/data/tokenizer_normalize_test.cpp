// NFC; tools/make_tokenizer_unicode.py compares the same steps with `tokenizers` on a million words.
#include "data/tokenizer_normalize.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

TEST(Composed, EqualsWhatTokenizersGives) {
  EXPECT_EQ(composed("plain"), "plain");
  EXPECT_EQ(composed("Cafe\u0301"), "Caf\u00E9");
  EXPECT_EQ(composed("s\u0307\u0323"), "\u1E69");        // marks are sorted first
  EXPECT_EQ(composed("a\u0315\u0300"), "\u00E0\u0315");  // a mark of another class lies between
  EXPECT_EQ(composed("a\u0301\u0301"), "\u00E1\u0301");
  EXPECT_EQ(composed("\u1112\u1161\u11AB"), "\uD55C");  // Hangul
  EXPECT_EQ(composed("\uD558\u11AB"), "\uD55C");
  EXPECT_EQ(composed("\u0958"), "\u0915\u093C");  // never made of its parts
  EXPECT_EQ(composed("\u212B"), "\u00C5");        // the unit, and then the letter
  EXPECT_EQ(composed("\u0301x"), "\u0301x");
}

TEST(Composed, LeavesWhatItHasMade) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    const std::string once = composed(text);
    ASSERT_EQ(composed(once), once) << std::hex << static_cast<std::uint32_t>(c);
  }
}

}  // namespace
}  // namespace plimsoll
