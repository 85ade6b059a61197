// Implements byte-level BPE as a model: prepends the space, cuts text into pieces and merges their bytes
// (tokenizer_split.h, tokenizer_bpe.h). Most words need one look-up.
//
//   const BpeModel model(definition.tokens, std::get<BpeOptions>(definition.model));
//   model.encode_text("TOTAL", ids);
#pragma once

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
  std::size_t memory_bytes() const override { return bpe_.memory_bytes() + whole_pieces_.memory_bytes(); }

 private:
  void encode_pieces(std::string_view text, std::vector<std::int32_t>& ids) const;

  Bpe bpe_;
  PieceTable whole_pieces_;  // pieces that become one token
  bool add_prefix_space_;
  SplitRules split_;
  bool composes_;
};

}  // namespace plimsoll
