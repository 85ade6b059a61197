// Pre-tokenisation: cuts text into pieces as the pattern of GPT-2 and RoBERTa does, that of Llama 3 and Qwen, or that
// of o200k and Tekken (gpt-oss; Mistral Nemo and later), and checks UTF-8.
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   [^\r\n\p{L}\p{N}]?U*L+(?i:…)?|[^\r\n\p{L}\p{N}]?U+L*(?i:…)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|…
//     where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L is [\p{Ll}\p{Lm}\p{Lo}\p{M}], and "…" as before
//
// It is written by hand rather than with a regular-expression library for one reason besides speed: \p{L}, \p{N} and \s
// depend on the library's Unicode version, and ids must equal those of Hugging Face's `tokenizers`. The classes here
// were queried from that library, code point by code point (tools/make_tokenizer_classes.py). The tests compare with
// PCRE2.
//
//   const CharClasses& classes = CharClasses::instance();
//   for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) end = piece_end(text, begin, classes);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class CharClass : std::uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// Gives the class of every code point: a table of blocks of 256, with equal blocks stored once (about 15 KiB).
class CharClasses {
 public:
  static const CharClasses& instance();

  CharClass operator()(char32_t code_point) const {
    const auto& block = blocks_[block_of_[code_point >> 8]];
    return static_cast<CharClass>(block[(code_point & 0xFF) >> 2] >> ((code_point & 3) * 2) & 3);
  }
  CharClass ascii(unsigned char byte) const { return ascii_[byte]; }

 private:
  CharClasses();
  std::array<CharClass, 128> ascii_{};
  std::array<std::uint8_t, 0x1100> block_of_{};
  std::vector<std::array<std::uint8_t, 64>> blocks_;  // two bits per code point
};

// Returns whether Python's str.split cuts a text there.
inline bool is_python_space(char32_t code_point, const CharClasses& classes) {
  return (code_point >= 0x1C && code_point <= 0x1F) || classes(code_point) == CharClass::kSpace;
}

// A code point and its length in bytes. `text` must be valid UTF-8 and `position` the start of a character in it.
struct DecodedChar {
  char32_t code_point;
  std::size_t length;
};
DecodedChar decode_utf8(std::string_view text, std::size_t position);

// Returns the offset of the first byte that breaks UTF-8 (as do overlong forms, surrogates and values above U+10FFFF).
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

struct SplitRules {
  enum class Pattern : std::uint8_t { kGpt2, kLlama3, kO200k };
  Pattern pattern = Pattern::kGpt2;
  int most_digits = 3;         // of a piece, but with kGpt2: {1,3} in the patterns above; Qwen and Tekken have \p{N}
  bool contractions = true;    // with kO200k, they end a word; Tekken's pattern has none
  bool single_digits = false;  // each \p{N} is cut out before the pattern sees what is between (SmolLM)
  friend bool operator==(const SplitRules&, const SplitRules&) = default;
};

// Returns the end of the piece that starts at `begin`. `text` is valid UTF-8; begin < text.size(); no piece is empty.
std::size_t piece_end(std::string_view text, std::size_t begin, const CharClasses& classes,
                      const SplitRules& rules = {});

}  // namespace plimsoll
