#include "data/tokenizer_unicode.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

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

// An entry of kDecompositions is a code point, the number of its parts, and the parts; entries are in the order of code
// points, and this returns the places of these, asked for in their order. A place is the index of the number of parts,
// so it is never 0.
class DecompositionPlaces {
 public:
  std::uint16_t operator()(char32_t code_point) {
    while (next_ < std::size(kDecompositions) && kDecompositions[next_] < code_point)
      next_ += 2 + kDecompositions[next_ + 1];
    const bool is_here = next_ < std::size(kDecompositions) && kDecompositions[next_] == code_point;
    return is_here ? static_cast<std::uint16_t>(next_ + 1) : std::uint16_t{0};
  }

 private:
  std::size_t next_ = 0;
};
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

// Returns the differences between letters and their lower case, asked for in the order of code points.
class LowerDifferences {
 public:
  std::int32_t operator()(char32_t code_point) {
    while (next_ < std::size(kLowerRuns) && kLowerRuns[next_].last < code_point) ++next_;
    if (next_ == std::size(kLowerRuns)) return 0;
    const LowerRun& run = kLowerRuns[next_];
    const bool is_in_run = code_point >= run.first && (code_point - run.first) % run.step == 0;
    return is_in_run ? run.difference : 0;
  }

 private:
  std::size_t next_ = 0;
};

constexpr bool lower_runs_are_apart() {
  for (std::size_t i = 1; i < std::size(kLowerRuns); ++i) {
    if (kLowerRuns[i].first <= kLowerRuns[i - 1].last) return false;
  }
  return true;
}
static_assert(lower_runs_are_apart());

}  // namespace

bool is_hangul_syllable(char32_t code_point) { return code_point - kFirstSyllable < kSyllables; }
bool has_trailing(char32_t syllable) { return (syllable - kFirstSyllable) % kTrailings != 0; }

const UnicodeTables& UnicodeTables::instance() {
  static const UnicodeTables tables;
  return tables;
}

UnicodeTables::UnicodeTables()
    : flags_(RunValues(kFlagRuns)),
      combining_(RunValues(kCombiningRuns)),
      decomposition_(DecompositionPlaces()),
      lower_(LowerDifferences()),
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
