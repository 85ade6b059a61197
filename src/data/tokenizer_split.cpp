#include "data/tokenizer_split.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

struct ClassRun {
  std::uint32_t first;
  std::uint8_t kind;
};
constexpr ClassRun kClassRuns[] = {
#include "data/tokenizer_classes.inc"
};

// One character of the text with its class.
struct Step {
  CharClass kind;
  std::size_t length;
};

Step step_at(std::string_view text, std::size_t position, const CharClasses& classes) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {classes.ascii(byte), 1};
  const DecodedChar decoded = decode_utf8(text, position);
  return {classes(decoded.code_point), decoded.length};
}

// Returns the end of the longest run of `kind` from `position`.
std::size_t run_end(std::string_view text, std::size_t position, CharClass kind, const CharClasses& classes) {
  while (position < text.size()) {
    const Step step = step_at(text, position, classes);
    if (step.kind != kind) break;
    position += step.length;
  }
  return position;
}

// Returns the length of 's 't 're 've 'm 'll 'd at `begin`, apostrophe included; 0 if there is none.
std::size_t contraction_length(std::string_view text, std::size_t begin) {
  const std::string_view rest = text.substr(begin + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

// "\s+(?!\S)|\s+" takes all white space if nothing follows, else all but its last character, which may join the word,
// unless it is the only one.
std::size_t white_space_end(std::string_view text, std::size_t begin, const CharClasses& classes) {
  std::size_t last = begin, end = begin;
  while (end < text.size()) {
    const Step step = step_at(text, end, classes);
    if (step.kind != CharClass::kSpace) return last == begin ? end : last;
    last = end;
    end += step.length;
  }
  return end;
}

std::size_t gpt2_piece_end(std::string_view text, std::size_t begin, const CharClasses& classes) {
  if (text[begin] == '\'') {
    const std::size_t length = contraction_length(text, begin);
    if (length > 0) return begin + length;
  }
  const Step first = step_at(text, begin, classes);
  const std::size_t second = begin + first.length;
  if (first.kind != CharClass::kSpace) return run_end(text, second, first.kind, classes);

  // " ?" of the pattern: a plain space belongs to the run after it.
  if (second == text.size()) return second;
  const Step next = step_at(text, second, classes);
  if (next.kind != CharClass::kSpace) {
    return text[begin] == ' ' ? run_end(text, second + next.length, next.kind, classes) : second;
  }
  return white_space_end(text, begin, classes);
}

// Does the same for (?i:'s|'t|...), where s may be a long s, too.
std::size_t any_case_contraction_length(std::string_view text, std::size_t begin) {
  constexpr std::string_view kLongS = "\u017F";
  std::string rest(text.substr(begin + 1, 2));
  if (rest == kLongS) return 1 + kLongS.size();
  for (char& c : rest) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

bool is_line_end(std::string_view text, std::size_t at) {
  return at < text.size() && (text[at] == '\r' || text[at] == '\n');
}

// Does what the patterns of Llama 3 and o200k do with all but words. `slashes`: those after line ends, too, belong to a
// run of other characters.
std::size_t other_piece_end(std::string_view text, std::size_t begin, const CharClasses& classes, int most_digits,
                            bool slashes) {
  const auto kind_at = [&](std::size_t at) { return step_at(text, at, classes).kind; };
  const Step first = step_at(text, begin, classes);
  const std::size_t second = begin + first.length;
  if (first.kind == CharClass::kNumber) {
    std::size_t end = second;
    for (int digits = 1; digits < most_digits && end < text.size() && kind_at(end) == CharClass::kNumber; ++digits) {
      end += step_at(text, end, classes).length;
    }
    return end;
  }
  const bool space_before = text[begin] == ' ' && second < text.size() && kind_at(second) == CharClass::kOther;
  if (first.kind == CharClass::kOther || space_before) {
    std::size_t end = run_end(text, second, CharClass::kOther, classes);
    while (is_line_end(text, end) || (slashes && end < text.size() && text[end] == '/')) ++end;
    return end;
  }
  // Takes white space up to its last line end, if it has one.
  const std::size_t space_end = run_end(text, begin, CharClass::kSpace, classes);
  for (std::size_t end = space_end; end > begin; --end) {
    if (is_line_end(text, end - 1)) return end;
  }
  return white_space_end(text, begin, classes);
}

std::size_t llama3_piece_end(std::string_view text, std::size_t begin, const CharClasses& classes, int most_digits) {
  if (text[begin] == '\'') {
    const std::size_t length = any_case_contraction_length(text, begin);
    if (length > 0) return begin + length;
  }
  const Step first = step_at(text, begin, classes);
  const std::size_t second = begin + first.length;
  if (first.kind == CharClass::kLetter) return run_end(text, second, CharClass::kLetter, classes);
  const bool may_precede = first.kind != CharClass::kNumber && !is_line_end(text, begin) && second < text.size();
  if (may_precede && step_at(text, second, classes).kind == CharClass::kLetter) {
    return run_end(text, second, CharClass::kLetter, classes);
  }
  return other_piece_end(text, begin, classes, most_digits, false);
}

// Which characters begin a word, and which go on in one, for a pattern that tells case: capitals and small letters, and
// others, such as marks, that do both.
class WordCases {
 public:
  explicit WordCases(std::string_view text) : text_(text), cases_(table()) {}

  // Returns the end of U*L+ from `begin`, or nothing. U* takes all it can, and gives back up to a character of L.
  std::optional<std::size_t> small_word_end(std::size_t begin) const {
    std::size_t end = begin, last = begin;  // `last`: behind the last character so far that is in both
    while (end < text_.size()) {
      const auto [kind, length] = at(end);
      if ((kind & kBegins) == 0) break;
      end += length;
      if ((kind & kGoesOn) != 0) last = end;
    }
    const std::size_t small = run(end, kGoesOn);
    if (small > end) return small;
    return last > begin ? std::optional(last) : std::nullopt;
  }
  // Returns the end of U+L* from `begin`, or nothing; precondition: small_word_end finds nothing.
  std::optional<std::size_t> capital_word_end(std::size_t begin) const {
    const std::size_t end = run(begin, kBegins);
    return end > begin ? std::optional(end) : std::nullopt;
  }

 private:
  static constexpr std::uint8_t kBegins = 1, kGoesOn = 2;
  static const CodePointTable<std::uint8_t>& table() {
    static constexpr CodePointRun kCaseRuns[] = {
#include "data/tokenizer_cases.inc"
    };
    static const CodePointTable<std::uint8_t> table{RunValues(kCaseRuns)};
    return table;
  }
  std::pair<std::uint8_t, std::size_t> at(std::size_t position) const {
    const DecodedChar decoded = decode_utf8(text_, position);
    return {cases_[decoded.code_point], decoded.length};
  }
  std::size_t run(std::size_t position, std::uint8_t kinds) const {
    while (position < text_.size()) {
      const auto [kind, length] = at(position);
      if ((kind & kinds) == 0) break;
      position += length;
    }
    return position;
  }

  std::string_view text_;
  const CodePointTable<std::uint8_t>& cases_;
};

std::size_t o200k_piece_end(std::string_view text, std::size_t begin, const CharClasses& classes,
                            const SplitRules& rules) {
  const WordCases words(text);
  const Step first = step_at(text, begin, classes);
  const bool may_precede =
      first.kind != CharClass::kLetter && first.kind != CharClass::kNumber && !is_line_end(text, begin);
  std::optional<std::size_t> end;
  if (may_precede) end = words.small_word_end(begin + first.length);
  if (!end) end = words.small_word_end(begin);
  if (!end && may_precede) end = words.capital_word_end(begin + first.length);
  if (!end) end = words.capital_word_end(begin);
  if (!end) return other_piece_end(text, begin, classes, rules.most_digits, true);
  const bool contracts = rules.contractions && *end < text.size() && text[*end] == '\'';
  return *end + (contracts ? any_case_contraction_length(text, *end) : 0);
}

// Returns the position of the first number from `begin` on; the text's end if there is none.
std::size_t next_number(std::string_view text, std::size_t begin, const CharClasses& classes) {
  while (begin < text.size()) {
    const Step step = step_at(text, begin, classes);
    if (step.kind == CharClass::kNumber) break;
    begin += step.length;
  }
  return begin;
}

}  // namespace

const CharClasses& CharClasses::instance() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() {
  std::size_t run = 0;
  for (std::uint32_t block = 0; block < block_of_.size(); ++block) {
    std::array<std::uint8_t, 64> bits{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      const std::uint32_t code_point = block * 256 + i;
      if (run + 1 < std::size(kClassRuns) && kClassRuns[run + 1].first == code_point) ++run;
      const std::uint8_t kind = kClassRuns[run].kind;
      bits[i / 4] = static_cast<std::uint8_t>(bits[i / 4] | kind << (i % 4 * 2));
      if (code_point < ascii_.size()) ascii_[code_point] = static_cast<CharClass>(kind);
    }
    const auto known = std::find(blocks_.begin(), blocks_.end(), bits);
    block_of_[block] = static_cast<std::uint8_t>(known - blocks_.begin());
    if (known == blocks_.end()) blocks_.push_back(bits);
  }
}

DecodedChar decode_utf8(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) -> char32_t { return static_cast<unsigned char>(text[position + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const auto lead = static_cast<unsigned char>(text[position]);
    if (lead < 0x80) {
      ++position;
      continue;
    }
    const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || position + length > text.size()) return position;
    for (std::size_t i = 1; i < length; ++i) {
      if ((static_cast<unsigned char>(text[position + i]) & 0xC0) != 0x80) return position;
    }
    const char32_t code_point = decode_utf8(text, position).code_point;
    const bool overlong = (length == 3 && code_point < 0x800) || (length == 4 && code_point < 0x10000);
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    if (overlong || surrogate || code_point > 0x10FFFF) return position;
    position += length;
  }
  return std::nullopt;
}

std::size_t piece_end(std::string_view text, std::size_t begin, const CharClasses& classes, const SplitRules& rules) {
  if (rules.single_digits) {
    const std::size_t number = next_number(text, begin, classes);
    if (number == begin) return begin + step_at(text, begin, classes).length;
    text = text.substr(0, number);
  }
  switch (rules.pattern) {
    case SplitRules::Pattern::kGpt2:
      return gpt2_piece_end(text, begin, classes);
    case SplitRules::Pattern::kLlama3:
      return llama3_piece_end(text, begin, classes, rules.most_digits);
    case SplitRules::Pattern::kO200k:
      return o200k_piece_end(text, begin, classes, rules);
  }
  return text.size();
}

}  // namespace plimsoll
