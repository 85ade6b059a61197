// Knows what Hugging Face's `tokenizers` does with each code point when it normalises and splits text: classes,
// canonical decompositions and compositions, combining classes, lower case. tools/make_tokenizer_unicode.py asked the
// library for the tables.
//
//   const UnicodeTables& tables = UnicodeTables::instance();
//   const bool is_punctuation = (tables.flags(U'!') & kPunctuation) != 0;
//   std::u32string text;
//   append_utf32("\u00C9", text);                                        // É
//   std::u32string decomposed = tables.decompose(text);                   // E and U+0301
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

// These flags say what the library does with a code point.
inline constexpr std::uint8_t kDropped = 1;       // clean_text removes it
inline constexpr std::uint8_t kCleanSpace = 2;    // clean_text makes it U+0020
inline constexpr std::uint8_t kChinese = 4;       // handle_chinese_chars sets spaces around it
inline constexpr std::uint8_t kAccent = 8;        // strip_accents removes it
inline constexpr std::uint8_t kPunctuation = 16;  // it is a piece of its own
inline constexpr std::uint8_t kWhiteSpace = 32;   // it separates pieces

// Holds a value for every code point in blocks of 256, with equal blocks stored once.
template <typename Value>
class CodePointTable {
 public:
  // `value_of` is asked for every code point, in their order, so that no list of all of them takes memory.
  template <typename ValueOf>
  explicit CodePointTable(ValueOf value_of) {
    for (std::size_t block = 0; block < block_of_.size(); ++block) {
      std::array<Value, 256> found;
      for (std::size_t i = 0; i < found.size(); ++i) found[i] = value_of(static_cast<char32_t>(block * 256 + i));
      std::size_t known = 0;
      while (known < blocks_.size() && blocks_[known] != found) ++known;
      if (known == blocks_.size()) blocks_.push_back(found);
      block_of_[block] = static_cast<std::uint16_t>(known);
    }
  }
  Value operator[](char32_t code_point) const { return blocks_[block_of_[code_point >> 8]][code_point & 0xFF]; }

 private:
  std::array<std::uint16_t, 0x1100> block_of_{};
  std::vector<std::array<Value, 256>> blocks_;
};

// The tables are stored as runs: a run ends where the next begins.
struct CodePointRun {
  char32_t first;
  std::uint8_t value;
};
// Returns the values of code points, asked for in their order; 0 before the first run.
class RunValues {
 public:
  explicit RunValues(std::span<const CodePointRun> runs) : runs_(runs) {}
  std::uint8_t operator()(char32_t code_point) {
    while (next_ < runs_.size() && runs_[next_].first <= code_point) ++next_;
    return next_ == 0 ? std::uint8_t{0} : runs_[next_ - 1].value;
  }

 private:
  std::span<const CodePointRun> runs_;
  std::size_t next_ = 0;
};

// A syllable of Hangul is composed by arithmetic, and has no entries in the tables.
bool is_hangul_syllable(char32_t code_point);
bool has_trailing(char32_t syllable);  // a consonant after the vowel

class UnicodeTables {
 public:
  static const UnicodeTables& instance();

  std::uint8_t flags(char32_t code_point) const { return flags_[code_point]; }
  // Returns the canonical decomposition (NFD): every character that has parts is replaced by them, and the marks after
  // a character are sorted by their combining class.
  std::u32string decompose(const std::u32string& text) const;
  // Returns the canonical composition (NFC): decomposed, then composed again as far as possible.
  std::u32string compose(const std::u32string& text) const;
  // Appends the lower case of one code point, whatever its context.
  void append_lower(char32_t code_point, std::u32string& text) const;

 private:
  UnicodeTables();
  void append_parts(char32_t code_point, std::u32string& text) const;
  // Returns the character that two compose; 0: none.
  char32_t pair(char32_t first, char32_t second) const;

  CodePointTable<std::uint8_t> flags_;
  CodePointTable<std::uint8_t> combining_;
  CodePointTable<std::uint16_t> decomposition_;        // its place in kDecompositions; 0: none
  CodePointTable<std::int32_t> lower_;                 // the difference
  std::unordered_map<std::uint64_t, char32_t> pairs_;  // the first in the upper half
};

// Appends the code points of valid UTF-8.
void append_utf32(std::string_view text, std::u32string& code_points);

}  // namespace plimsoll
