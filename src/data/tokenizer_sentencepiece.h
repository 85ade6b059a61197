// Reads a SentencePiece model file (sentencepiece.bpe.model) as data. The format is that of sentencepiece_model.proto;
// fields that do not bear on Hugging Face's fast tokenizers are skipped.
//
//   const SentencePieceModel model = read_sentence_pieces(bytes, "xlm-roberta-base/sentencepiece.bpe.model");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct SentencePiece {
  // The numbers are those of the format.
  enum class Kind : std::uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  std::string text{};
  float score = 0.0F;
  Kind kind = Kind::kNormal;
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces{};
  std::string charsmap{};  // precompiled_charsmap; empty: text is left as it is
};

// Throws DataError at `where`: damaged bytes, or a model that is not a Unigram one.
SentencePieceModel read_sentence_pieces(std::string_view bytes, const std::string& where);

}  // namespace plimsoll
