// Implements BPE of characters as a model, like SentencePiece's for Llama 2: spaces become "▁", CharacterRules say
// whether one is put in front, and the characters of the whole text are merged; a character without a token is spelled
// in the tokens of its bytes.
//
//   const CharacterBpe model(definition.tokens, std::get<BpeOptions>(definition.model));
//   model.encode_text("TOTAL", ids);                            // those of "▁TOTAL"
#pragma once

#include <array>
#include <optional>

#include "data/tokenizer_files.h"
#include "data/tokenizer_model.h"

namespace plimsoll {

// Represents a space.
inline constexpr std::string_view kSpaceMark = "\u2581";

// Return the token of a byte, "<0x0A>", and the byte of such a token.
std::string byte_token(unsigned char byte);
std::optional<unsigned char> byte_of_token(std::string_view token);

class CharacterBpe : public TokenModel {
 public:
  // Every byte must have a token.
  CharacterBpe(const std::vector<std::string>& tokens, const BpeOptions& options);

  // A word of a page is encoded as within a text, after a space, whatever the rules put in front of a text.
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_running(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_behind(std::string_view text, std::vector<std::int32_t>& ids, bool running) const override;

  bool normalizes() const override { return rules_.by_normalizer; }
  std::string normalize(std::string_view text) const override;
  void encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_normalized_running(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_normalized_behind(std::string_view text, std::vector<std::int32_t>& ids, bool running) const override;

  void append_text(std::string_view token, std::string& text) const override;
  std::string spelled(std::string_view text) const override;
  std::size_t memory_bytes() const override { return bpe_.memory_bytes() + characters_.memory_bytes(); }

 private:
  // `sets`: a space is put in front, unless there is one.
  void encode_with(std::string_view text, bool sets, std::vector<std::int32_t>& ids) const;
  void encode_marked(std::string_view text, std::vector<std::int32_t>& ids) const;

  CharacterRules rules_;
  std::array<std::int32_t, 256> byte_ids_{};
  Bpe bpe_;
  PieceTable characters_;
};

}  // namespace plimsoll
