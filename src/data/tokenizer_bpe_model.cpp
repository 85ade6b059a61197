#include "data/tokenizer_bpe_model.h"

#include <cstring>

#include "base/error.h"
#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

BpeRules rules_of(const std::vector<std::string>& tokens, const std::vector<BpeMerge>& merges) {
  BpeRules rules;
  rules.byte_ids.fill(kNoToken);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string bytes = alphabet_to_bytes(tokens[id]);
    if (bytes.size() == 1 && bytes_to_alphabet(bytes) == tokens[id]) {
      rules.byte_ids[static_cast<unsigned char>(bytes[0])] = static_cast<std::int32_t>(id);
    }
  }
  for (const std::int32_t id : rules.byte_ids) check(id != kNoToken, "every byte has a token");
  rules.merges = merges;
  return rules;
}

// Returns the tokens that cutting into pieces and merging, the two slow steps, would leave unchanged. A token need not
// be one of these just because the vocabulary has it: merging by rank may never produce it.
PieceTable whole_pieces_of(const std::vector<std::string>& tokens, const Bpe& bpe, const SplitRules& split) {
  PieceTable table(tokens.size());
  const CharClasses& classes = CharClasses::instance();
  std::vector<std::int32_t> ids;
  for (const std::string& token : tokens) {
    const std::string bytes = alphabet_to_bytes(token);
    if (bytes.empty() || bytes.size() > PieceTable::kMaxPieceBytes || find_invalid_utf8(bytes) ||
        piece_end(bytes, 0, classes, split) != bytes.size()) {
      continue;
    }
    ids.clear();
    bpe.encode(bytes, ids);
    if (ids.size() == 1) table.insert(bytes, ids[0]);
  }
  return table;
}

}  // namespace

BpeModel::BpeModel(const std::vector<std::string>& tokens, const BpeOptions& options)
    : bpe_(rules_of(tokens, options.merges)),
      whole_pieces_(whole_pieces_of(tokens, bpe_, options.split)),
      add_prefix_space_(options.add_prefix_space),
      split_(options.split),
      composes_(options.composes) {
  if (options.ignores_merges) list_other_pieces(tokens);
}

void BpeModel::list_other_pieces(const std::vector<std::string>& tokens) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string bytes = alphabet_to_bytes(tokens[id]);
    if (!bytes.empty() && whole_pieces_.find(bytes) == kNoToken) {
      other_pieces_.emplace(bytes, static_cast<std::int32_t>(id));
    }
  }
}

std::int32_t BpeModel::find_piece(std::string_view piece) const {
  const std::int32_t id = whole_pieces_.find(piece);
  if (id != kNoToken || other_pieces_.empty()) return id;
  const auto other = other_pieces_.find(std::string(piece));
  return other == other_pieces_.end() ? kNoToken : other->second;
}

std::size_t BpeModel::memory_bytes() const {
  std::size_t others = other_pieces_.bucket_count() * sizeof(void*);
  for (const auto& [piece, id] : other_pieces_) others += sizeof(piece) + piece.capacity() + 3 * sizeof(void*);
  return bpe_.memory_bytes() + whole_pieces_.memory_bytes() + others;
}

void BpeModel::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  composes_ ? encode_normalized(composed(text), ids) : encode_normalized(text, ids);
}

void BpeModel::encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  if (!add_prefix_space_ || text[0] == ' ') return encode_pieces(text, ids);
  std::array<char, 256> buffer;
  if (text.size() < buffer.size()) {
    buffer[0] = ' ';
    std::memcpy(buffer.data() + 1, text.data(), text.size());
    return encode_pieces({buffer.data(), text.size() + 1}, ids);
  }
  encode_pieces(std::string(" ").append(text), ids);
}

void BpeModel::encode_running(std::string_view text, std::vector<std::int32_t>& ids) const {
  composes_ ? encode_normalized_running(composed(text), ids) : encode_normalized_running(text, ids);
}

void BpeModel::encode_pieces(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const std::int32_t id = whole_pieces_.find(text); id != kNoToken) {
    ids.push_back(id);
    return;
  }
  const CharClasses& classes = CharClasses::instance();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin, classes, split_);
    const std::string_view piece = text.substr(begin, end - begin);
    const std::int32_t id = find_piece(piece);
    id != kNoToken ? ids.push_back(id) : bpe_.encode(piece, ids);
    begin = end;
  }
}

}  // namespace plimsoll
