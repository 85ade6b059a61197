#include "data/tokenizer_graphemes.h"

#include "data/tokenizer_split.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

#include "data/tokenizer_graphemes.inc"

// The numbers are those of tokenizer_graphemes.inc.
enum class Kind : std::uint8_t {
  kOther,
  kControl,
  kExtend,
  kJoiner,  // U+200D
  kPrepend,
  kSpacing,
  kLeading,  // Hangul: a leading consonant, a vowel, a trailing consonant
  kVowel,
  kTrailing,
  kPicture,
  kOpen,  // Hangul syllables without and with a trailing consonant
  kClosed
};
constexpr std::uint8_t kKindBits = 15;
constexpr std::uint8_t kConsonant = 16, kLinker = 32, kConjunctExtend = 64;  // of Indic conjuncts

struct Grapheme {
  Kind kind;
  std::uint8_t flags;
};

Grapheme grapheme_of(char32_t code_point) {
  static const CodePointTable<std::uint8_t> table{RunValues(kGraphemeRuns)};
  if (is_hangul_syllable(code_point)) return {has_trailing(code_point) ? Kind::kClosed : Kind::kOpen, 0};
  const std::uint8_t value = table[code_point];
  return {static_cast<Kind>(value & kKindBits), static_cast<std::uint8_t>(value & ~kKindBits)};
}

bool joins_hangul(Kind before, Kind after) {
  switch (before) {
    case Kind::kLeading:
      return after == Kind::kLeading || after == Kind::kVowel || after == Kind::kOpen || after == Kind::kClosed;
    case Kind::kOpen:
    case Kind::kVowel:
      return after == Kind::kVowel || after == Kind::kTrailing;
    case Kind::kClosed:
    case Kind::kTrailing:
      return after == Kind::kTrailing;
    default:
      return false;
  }
}

}  // namespace

std::size_t grapheme_end(std::string_view text, std::size_t begin) {
  DecodedChar decoded = decode_utf8(text, begin);
  Grapheme before = grapheme_of(decoded.code_point);
  bool picture = false;                              // the cluster is a picture and extending characters so far
  bool picture_joined = false;                       // a joiner follows these
  enum { kNone, kBegun, kLinked } conjunct = kNone;  // a consonant, then extending characters, one of them a linker
  const auto step = [&](Grapheme next) {
    picture_joined = picture && next.kind == Kind::kJoiner;
    picture = next.kind == Kind::kPicture || (picture && next.kind == Kind::kExtend);
    if ((next.flags & kConsonant) != 0) {
      conjunct = kBegun;
    } else if ((next.flags & kLinker) != 0) {
      conjunct = conjunct == kNone ? kNone : kLinked;
    } else if ((next.flags & kConjunctExtend) == 0) {
      conjunct = kNone;
    }
  };
  step(before);
  std::size_t end = begin + decoded.length;
  while (end < text.size()) {
    const bool carriage_return = decoded.code_point == U'\r';
    decoded = decode_utf8(text, end);
    const Grapheme after = grapheme_of(decoded.code_point);
    const bool controls = before.kind == Kind::kControl || after.kind == Kind::kControl;
    const bool joined = controls ? carriage_return && decoded.code_point == U'\n'
                                 : joins_hangul(before.kind, after.kind) || after.kind == Kind::kExtend ||
                                       after.kind == Kind::kJoiner || after.kind == Kind::kSpacing ||
                                       before.kind == Kind::kPrepend ||
                                       ((after.flags & kConsonant) != 0 && conjunct == kLinked) ||
                                       (after.kind == Kind::kPicture && picture_joined);
    if (!joined) break;
    step(after);
    before = after;
    end += decoded.length;
  }
  return end;
}

}  // namespace plimsoll
