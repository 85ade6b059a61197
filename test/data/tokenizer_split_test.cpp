#include "data/tokenizer_split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"

namespace plimsoll {
namespace {

// The reference runs the pattern itself with a regular-expression library.
class Pattern {
 public:
  explicit Pattern(const char* text) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                              &at, nullptr));
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }
  // Returns the end of the match at or after `begin`; 0 if there is none. `start` receives where it starts.
  std::size_t match(std::string_view text, std::size_t begin, std::size_t& start) const {
    const int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin, 0,
                                  match_.get(), nullptr);
    if (count < 1) return 0;
    start = pcre2_get_ovector_pointer(match_.get())[0];
    return pcre2_get_ovector_pointer(match_.get())[1];
  }
  bool matches(std::string_view text) const {
    std::size_t start = 0;
    return match(text, 0, start) == text.size() && start == 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

constexpr const char* kSplit = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenSplit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kSplit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenSplit = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr SplitRules kO200k{.pattern = SplitRules::Pattern::kO200k};
constexpr SplitRules kTekken{.pattern = SplitRules::Pattern::kO200k, .most_digits = 1, .contractions = false};
constexpr SplitRules kLlama3{.pattern = SplitRules::Pattern::kLlama3};
constexpr SplitRules kQwen{.pattern = SplitRules::Pattern::kLlama3, .most_digits = 1};

std::vector<std::string> pieces_of(std::string_view text, const SplitRules& rules = {}) {
  const CharClasses& classes = CharClasses::instance();
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin, classes, rules);
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::vector<std::string> reference_pieces_of(std::string_view text, const Pattern& pattern) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t start = 0;
    const std::size_t end = pattern.match(text, begin, start);
    EXPECT_EQ(start, begin);
    if (end <= begin) break;
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::string utf8(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
}

bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// PCRE2's classes of code points, in its own Unicode version.
struct ReferenceClasses {
  Pattern letter{R"(\p{L})"}, number{R"(\p{N})"}, space{R"(\s)"}, unassigned{R"(\p{Cn})"};
  CharClass operator()(char32_t c) const {
    const std::string text = utf8(c);
    return letter.matches(text)   ? CharClass::kLetter
           : number.matches(text) ? CharClass::kNumber
           : space.matches(text)  ? CharClass::kSpace
                                  : CharClass::kOther;
  }
};

TEST(PieceEnd, CutsAsThePatternDoes) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces_of(" TOTAL: RM12.90"), (Pieces{" TOTAL", ":", " RM", "12", ".", "90"}));
  EXPECT_EQ(pieces_of(" don't they'll"), (Pieces{" don", "'t", " they", "'ll"}));
  EXPECT_EQ(pieces_of("a  b   "), (Pieces{"a", " ", " b", "   "}));
  EXPECT_EQ(pieces_of("!'s"), (Pieces{"!'", "s"}));  // the apostrophe already belongs to the run before it
  EXPECT_EQ(pieces_of("\n x"), (Pieces{"\n", " x"}));
  EXPECT_EQ(pieces_of("\n\nx"), (Pieces{"\n", "\n", "x"}));
}

TEST(PieceEnd, CutsNumbersOut) {
  using Pieces = std::vector<std::string>;
  const SplitRules rules{.single_digits = true};
  EXPECT_EQ(pieces_of(" RM12.90  7", rules), (Pieces{" RM", "1", "2", ".", "9", "0", "  ", "7"}));
}

// A way of splitting, and the pattern that says the same.
class Split : public testing::TestWithParam<std::pair<const char*, SplitRules>> {};
INSTANTIATE_TEST_SUITE_P(Patterns, Split,
                         testing::Values(std::pair(kSplit, SplitRules{}), std::pair(kLlama3Split, kLlama3),
                                         std::pair(kQwenSplit, kQwen), std::pair(kO200kSplit, kO200k),
                                         std::pair(kTekkenSplit, kTekken)));

TEST_P(Split, EqualsPcre2OnEveryShortString) {
  const Pattern pattern(GetParam().first);
  // The alphabet has one or two characters of each kind, and all that contractions consist of.
  const std::vector<std::string> alphabet = {"'", " ", "\n",     "7",      "!",      "s", "r",
                                             "e", "E", "\u3042", "\u00E9", "\u3000", "/", "\u0301"};
  std::size_t strings = 0;
  for (std::size_t length = 1; length <= 5; ++length) {
    std::vector<std::size_t> digits(length, 0);
    for (bool more = true; more;) {
      std::string text;
      for (const std::size_t digit : digits) text += alphabet[digit];
      ASSERT_EQ(pieces_of(text, GetParam().second), reference_pieces_of(text, pattern)) << text;
      ++strings;
      std::size_t i = 0;
      while (i < length && ++digits[i] == alphabet.size()) digits[i++] = 0;
      more = i < length;
    }
  }
  EXPECT_EQ(strings, 14U + 196 + 2744 + 38416 + 537824);
}

TEST_P(Split, EqualsPcre2OnRandomTextOfAllPlanes) {
  const Pattern pattern(GetParam().first);
  const ReferenceClasses reference;
  const CharClasses& classes = CharClasses::instance();
  std::uint32_t counter = 0;
  const auto draw = [&](std::uint32_t limit) { return philox4x32({counter++, 0, 0, 0}, {1, 2})[0] % limit; };
  std::size_t other_version = 0;
  for (int sample = 0; sample < 20000; ++sample) {
    std::string text;
    for (std::uint32_t left = 1 + draw(12); left > 0;) {
      const char32_t limit = draw(2) ? 0x80 : draw(2) ? 0x3100 : 0x110000;
      const char32_t c = draw(limit);
      if (is_surrogate(c)) continue;
      // A mark of a later version is no mark for PCRE2.
      const bool tells_marks = GetParam().second.pattern == SplitRules::Pattern::kO200k;
      if (tells_marks && c >= 0x80 && reference.unassigned.matches(utf8(c))) continue;
      --left;
      // Where Unicode versions differ, Hugging Face's library is right, and PCRE2 cannot be the reference.
      reference(c) == classes(c) ? text += utf8(c) : (++other_version, text);
    }
    ASSERT_EQ(pieces_of(text, GetParam().second), reference_pieces_of(text, pattern)) << text;
  }
  EXPECT_LT(other_version, 2000U);
}

TEST(CharClasses, AgreeWithPcre2WhereItsUnicodeVersionKnowsTheCharacter) {
  const ReferenceClasses reference;
  const CharClasses& classes = CharClasses::instance();
  std::size_t assigned = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_surrogate(c) || reference.unassigned.matches(utf8(c))) continue;
    ++assigned;
    // This is white space until Unicode 6.3, and still in PCRE2.
    if (c == 0x180E) continue;
    EXPECT_EQ(classes(c), reference(c)) << std::hex << static_cast<std::uint32_t>(c);
  }
  EXPECT_GT(assigned, 280000U);  // private use included
  for (unsigned char c = 0; c < 0x80; ++c) EXPECT_EQ(classes.ascii(c), classes(c));
}

TEST(FindInvalidUtf8, TakesEveryCharacterAndDecodesIt) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    const std::string text = utf8(c);
    ASSERT_EQ(find_invalid_utf8(text).has_value(), is_surrogate(c)) << static_cast<std::uint32_t>(c);
    if (is_surrogate(c)) continue;
    const DecodedChar decoded = decode_utf8(text, 0);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
  }
}

TEST(FindInvalidUtf8, NamesTheFirstBrokenByte) {
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("abc\x80"), 3U);             // a continuation by itself
  EXPECT_EQ(find_invalid_utf8("ab\xC3"), 2U);              // cut short
  EXPECT_EQ(find_invalid_utf8("ab\xE2\x82"), 2U);          // cut short
  EXPECT_EQ(find_invalid_utf8("a\xC0\x80"), 1U);           // overlong
  EXPECT_EQ(find_invalid_utf8("a\xE0\x80\x80"), 1U);       // overlong
  EXPECT_EQ(find_invalid_utf8("\xF0\x80\x80\x80"), 0U);    // overlong
  EXPECT_EQ(find_invalid_utf8("\u00E9\xED\xA0\x80"), 2U);  // a surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0U);    // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xF5\x80\x80\x80"), 0U);
  EXPECT_EQ(find_invalid_utf8("\xC3(\xC3\xA9"), 0U);
}

}  // namespace
}  // namespace plimsoll
