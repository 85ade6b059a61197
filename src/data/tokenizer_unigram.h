// Implements Unigram, the model of XLM-RoBERTa, LayoutXLM and LayoutLMv3 for Chinese: text is normalised, cut at white
// space, and covered by the tokens whose scores (log probabilities) have the largest sum. Kudo: "Subword
// Regularization", ACL 2018.
//
//   const Unigram model(definition.tokens, std::get<UnigramOptions>(definition.model));
//   model.encode_text("TOTAL", ids);                            // those of "▁TOTAL"
//
// A character that no token covers is unknown; its score is the smallest of the vocabulary less 10, and unknown
// characters side by side become one token.
#pragma once

#include <array>
#include <optional>

#include "data/tokenizer_charsmap.h"
#include "data/tokenizer_files.h"
#include "data/tokenizer_model.h"
#include "data/tokenizer_trie.h"

namespace plimsoll {

class Unigram : public TokenModel {
 public:
  Unigram(const std::vector<std::string>& tokens, const UnigramOptions& options);

  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override;
  bool normalizes() const override { return !options_.normalization.empty(); }
  std::string normalize(std::string_view text) const override;
  void encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void append_text(std::string_view token, std::string& text) const override;
  std::size_t memory_bytes() const override;

 private:
  void encode_part(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;
  bool is_plain(char byte) const { return plain_[static_cast<unsigned char>(byte)]; }

  UnigramOptions options_;  // without its scores, which are kept below
  std::optional<CharsMap> charsmap_;
  PrefixTrie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0.0;
  std::array<bool, 256> plain_{};  // bytes of ASCII that neither normalisation nor cutting changes
};

}  // namespace plimsoll
