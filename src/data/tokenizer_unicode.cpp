#include "data/tokenizer_unicode.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

struct LowerRun {
  char32_t first;
  char32_t last;
  char32_t step;
  std::int32_t difference;
};

#include "data/tokenizer_unicode.inc"

// Hangul syllables are decomposed by arithmetic (The Unicode Standard, section 3.12).
constexpr char32_t kFirstSyllable = 0xAC00, kSyllables = 11172;
constexpr char32_t kFirstLeading = 0x1100, kFirstVowel = 0x1161, kBeforeTrailing = 0x11A7;
constexpr char32_t kTrailings = 28, kVowelsAndTrailings = 588;

constexpr char32_t kDottedCapitalI = 0x130;  // the only letter whose lower case has two code points

// An entry of kDecompositions is a code point, the number of its parts, and the parts. A place is the index of the
// number of parts, so it is never 0.
std::vector<std::uint16_t> decomposition_places() {
  std::vector<std::uint16_t> places(kCodePoints);
  for (std::size_t place = 0; place < std::size(kDecompositions); place += 2 + kDecompositions[place + 1]) {
    places[kDecompositions[place]] = static_cast<std::uint16_t>(place + 1);
  }
  return places;
}
static_assert(std::size(kDecompositions) < 0xFFFF);

std::uint64_t pair_key(char32_t first, char32_t second) { return std::uint64_t{first} << 32 | second; }

// A character of more than two parts is composed of the character that all its parts but the last compose, and the last
// part.
std::unordered_map<std::uint64_t, char32_t> composed_pairs() {
  std::unordered_map<std::u32string, char32_t> whole;
  for (std::size_t place = 0; place < std::size(kDecompositions); place += 2 + kDecompositions[place + 1]) {
    const char32_t code_point = kDecompositions[place];
    const std::size_t count = kDecompositions[place + 1];
    if (count < 2 || std::ranges::binary_search(kNotComposed, code_point)) continue;
    whole.emplace(std::u32string(&kDecompositions[place + 2], count), code_point);
  }
  std::unordered_map<std::uint64_t, char32_t> pairs;
  for (const auto& [parts, code_point] : whole) {
    const auto before = whole.find(parts.substr(0, parts.size() - 1));
    pairs.emplace(pair_key(before == whole.end() ? parts[0] : before->second, parts.back()), code_point);
  }
  return pairs;
}

std::vector<std::int32_t> lower_differences() {
  std::vector<std::int32_t> differences(kCodePoints);
  for (const LowerRun& run : kLowerRuns) {
    for (char32_t letter = run.first; letter <= run.last; letter += run.step) differences[letter] = run.difference;
  }
  return differences;
}

}  // namespace

std::vector<std::uint8_t> spread_runs(std::span<const CodePointRun> runs) {
  std::vector<std::uint8_t> values(kCodePoints);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t end = i + 1 < runs.size() ? runs[i + 1].first : kCodePoints;
    std::fill(values.begin() + runs[i].first, values.begin() + static_cast<std::ptrdiff_t>(end), runs[i].value);
  }
  return values;
}

bool is_hangul_syllable(char32_t code_point) { return code_point - kFirstSyllable < kSyllables; }
bool has_trailing(char32_t syllable) { return (syllable - kFirstSyllable) % kTrailings != 0; }

const UnicodeTables& UnicodeTables::instance() {
  static const UnicodeTables tables;
  return tables;
}

UnicodeTables::UnicodeTables()
    : flags_(spread_runs(kFlagRuns)),
      combining_(spread_runs(kCombiningRuns)),
      decomposition_(decomposition_places()),
      lower_(lower_differences()),
      pairs_(composed_pairs()) {}

void UnicodeTables::append_parts(char32_t code_point, std::u32string& text) const {
  if (is_hangul_syllable(code_point)) {
    const char32_t index = code_point - kFirstSyllable;
    text += kFirstLeading + index / kVowelsAndTrailings;
    text += kFirstVowel + index % kVowelsAndTrailings / kTrailings;
    if (index % kTrailings != 0) text += kBeforeTrailing + index % kTrailings;
    return;
  }
  const std::size_t place = decomposition_[code_point];
  if (place == 0) {
    text += code_point;
  } else {
    text.append(&kDecompositions[place + 1], kDecompositions[place]);
  }
}

std::u32string UnicodeTables::decompose(const std::u32string& text) const {
  std::u32string parts;
  for (const char32_t code_point : text) append_parts(code_point, parts);
  for (std::size_t begin = 0; begin < parts.size();) {
    std::size_t end = begin;
    while (end < parts.size() && combining_[parts[end]] != 0) ++end;
    std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                     parts.begin() + static_cast<std::ptrdiff_t>(end),
                     [this](char32_t a, char32_t b) { return combining_[a] < combining_[b]; });
    begin = end + 1;
  }
  return parts;
}

char32_t UnicodeTables::pair(char32_t first, char32_t second) const {
  constexpr char32_t kLeadings = 19, kVowels = kVowelsAndTrailings / kTrailings;
  if (first - kFirstLeading < kLeadings && second - kFirstVowel < kVowels) {
    return kFirstSyllable + ((first - kFirstLeading) * kVowels + second - kFirstVowel) * kTrailings;
  }
  if (is_hangul_syllable(first) && !has_trailing(first) && second - kBeforeTrailing - 1 < kTrailings - 1) {
    return first + second - kBeforeTrailing;
  }
  const auto found = pairs_.find(pair_key(first, second));
  return found == pairs_.end() ? 0 : found->second;
}

std::u32string UnicodeTables::compose(const std::u32string& text) const {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::u32string made;
  std::size_t starter = kNone;
  std::uint8_t before = 0;  // the combining class of the last character that was made
  for (const char32_t code_point : decompose(text)) {
    const std::uint8_t rank = combining_[code_point];
    // A mark of the same class, or a starter, between the two prevents composition.
    const bool blocked = starter != kNone && starter + 1 < made.size() && (before >= rank || before == 0);
    const char32_t composed = starter == kNone || blocked ? 0 : pair(made[starter], code_point);
    if (composed != 0) {
      made[starter] = composed;
      continue;
    }
    if (rank == 0) starter = made.size();
    made += code_point;
    before = rank;
  }
  return made;
}

void UnicodeTables::append_lower(char32_t code_point, std::u32string& text) const {
  if (code_point == kDottedCapitalI) {
    text += U"i\u0307";
  } else {
    text += static_cast<char32_t>(static_cast<std::int32_t>(code_point) + lower_[code_point]);
  }
}

void append_utf32(std::string_view text, std::u32string& code_points) {
  for (std::size_t position = 0; position < text.size();) {
    const DecodedChar decoded = decode_utf8(text, position);
    code_points += decoded.code_point;
    position += decoded.length;
  }
}

}  // namespace plimsoll
