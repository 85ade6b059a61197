// Normalises text before it is cut into pieces, as `tokenizers`' BertNormalizer does for BERT and LayoutLM.
//
//   const BertNormalization uncased{};
//   std::string text = normalize_bert("Caf\u00C9\t\u4E2D", uncased);   // "cafe  中 "
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

struct BertNormalization {
  bool clean_text = true;            // removes control characters, makes white space U+0020
  bool handle_chinese_chars = true;  // sets spaces around ideographs, so that each is a piece of its own
  bool strip_accents = true;         // decomposes characters (NFD) and removes their marks
  bool lowercase = true;
  friend bool operator==(const BertNormalization&, const BertNormalization&) = default;
};

// Unigram tokenizers normalise text in steps of these kinds.
struct NormalizerStep {
  enum class Kind : std::uint8_t {
    kCharsMap,      // SentencePiece's character map, `text` being its bytes (tokenizer_charsmap.h)
    kStrip,         // removes white space at the left or right
    kReplace,       // sets `text` for `pattern`
    kReplaceSpaces  // sets `text` for each run of two or more spaces
  };
  Kind kind = Kind::kCharsMap;
  std::string text{}, pattern{};
  bool left = false, right = false;
};

// Returns the NFC form. `text` is valid UTF-8.
std::string composed(std::string_view text);

// `text` is valid UTF-8.
std::string normalize_bert(std::string_view text, const BertNormalization& options);

}  // namespace plimsoll
