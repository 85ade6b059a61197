// Implements byte-level BPE as a model: prepends the space, cuts text into pieces and merges their bytes
// (tokenizer_split.h, tokenizer_bpe.h). Most words need one look-up.
//
//   const BpeModel model(definition.tokens, std::get<BpeOptions>(definition.model));
//   model.encode_text("TOTAL", ids);
#pragma once

#include <string>
#include <unordered_map>

#include "data/tokenizer_files.h"
#include "data/tokenizer_model.h"

namespace plimsoll {

class BpeModel : public TokenModel {
 public:
  BpeModel(const std::vector<std::string>& tokens, const BpeOptions& options);

  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override;
  bool normalizes() const override { return composes_; }
  std::string normalize(std::string_view text) const override { return composes_ ? composed(text) : std::string(text); }
  void encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_running(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_normalized_running(std::string_view text, std::vector<std::int32_t>& ids) const override {
    if (!text.empty()) encode_pieces(text, ids);
  }
  void append_text(std::string_view token, std::string& text) const override { text += alphabet_to_bytes(token); }
  std::size_t memory_bytes() const override;

 private:
  void encode_pieces(std::string_view text, std::vector<std::int32_t>& ids) const;
  // Lists tokens that the merges must not make of a piece, but which are the piece.
  void list_other_pieces(const std::vector<std::string>& tokens);
  std::int32_t find_piece(std::string_view piece) const;

  Bpe bpe_;
  PieceTable whole_pieces_;                                     // pieces that become one token
  std::unordered_map<std::string, std::int32_t> other_pieces_;  // with ignores_merges: those that the table lacks
  bool add_prefix_space_;
  SplitRules split_;
  bool composes_;
};

}  // namespace plimsoll
