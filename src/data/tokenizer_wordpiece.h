// Implements WordPiece, the model of BERT and LayoutLM: text is normalised (tokenizer_normalize.h), cut at white space
// and around punctuation, and each piece is covered from its front by the longest token that fits; a piece that cannot
// be covered is unknown as a whole. Wu et al.: "Google's Neural Machine Translation System", 2016.
//
//   const WordPiece model(definition.tokens, std::get<WordPieceOptions>(definition.model));
//   model.encode_text("Invoice-No", ids);                       // invoice, -, no
#pragma once

#include <array>
#include <optional>

#include "data/tokenizer_bpe.h"
#include "data/tokenizer_files.h"
#include "data/tokenizer_model.h"
#include "data/tokenizer_trie.h"

namespace plimsoll {

class WordPiece : public TokenModel {
 public:
  WordPiece(const std::vector<std::string>& tokens, const WordPieceOptions& options);

  // Encodes words of ASCII in a faster way with the same result.
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override;
  bool normalizes() const override { return true; }
  std::string normalize(std::string_view text) const override { return normalize_bert(text, options_.normalization); }
  void encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void append_text(std::string_view token, std::string& text) const override;
  std::size_t memory_bytes() const override {
    return whole_pieces_.memory_bytes() + heads_.memory_bytes() + rests_.memory_bytes();
  }

 private:
  enum class AsciiKind : std::uint8_t { kGone, kSpace, kAlone, kLetter };
  struct Ascii {
    AsciiKind kind;
    char normalized;
  };
  bool encode_ascii(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;

  WordPieceOptions options_;
  std::array<Ascii, 128> ascii_{};
  PieceTable whole_pieces_;
  PrefixTrie heads_;  // the tokens that begin a piece
  PrefixTrie rests_;  // those that continue one, without the prefix
};

}  // namespace plimsoll
