#include "data/tokenizer_wordpiece.h"

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

using Keys = std::vector<std::pair<std::string_view, std::int32_t>>;

Keys heads_of(const std::vector<std::string>& tokens) {
  Keys keys;
  for (std::size_t id = 0; id < tokens.size(); ++id) keys.emplace_back(tokens[id], static_cast<std::int32_t>(id));
  return keys;
}

Keys rests_of(const std::vector<std::string>& tokens, const std::string& prefix) {
  Keys keys;
  for (auto [token, id] : heads_of(tokens)) {
    if (token.starts_with(prefix)) keys.emplace_back(token.substr(prefix.size()), id);
  }
  return keys;
}

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

PieceTable whole_pieces_of(const std::vector<std::string>& tokens, const WordPieceOptions& options) {
  PieceTable table(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    if (token.empty() || token.size() > PieceTable::kMaxPieceBytes || count_chars(token) > options.max_word_chars) {
      continue;
    }
    table.insert(token, static_cast<std::int32_t>(id));
  }
  return table;
}

}  // namespace

WordPiece::WordPiece(const std::vector<std::string>& tokens, const WordPieceOptions& options)
    : options_(options),
      whole_pieces_(whole_pieces_of(tokens, options)),
      heads_(heads_of(tokens)),
      rests_(rests_of(tokens, options.continuing_prefix)) {
  check(options.unknown >= 0, "WordPiece has an unknown token");
  const UnicodeTables& tables = UnicodeTables::instance();
  for (std::size_t byte = 0; byte < ascii_.size(); ++byte) {
    const char raw = static_cast<char>(byte);
    const std::string normalized = normalize({&raw, 1});
    check(normalized.size() <= 1, "an ASCII character is normalised to at most one");
    if (normalized.empty()) {
      ascii_[byte] = {AsciiKind::kGone, '\0'};
      continue;
    }
    const std::uint8_t flags = tables.flags(static_cast<unsigned char>(normalized[0]));
    ascii_[byte] = {(flags & kWhiteSpace) != 0    ? AsciiKind::kSpace
                    : (flags & kPunctuation) != 0 ? AsciiKind::kAlone
                                                  : AsciiKind::kLetter,
                    normalized[0]};
  }
}

void WordPiece::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (!encode_ascii(text, ids)) encode_normalized(normalize(text), ids);
}

// Normalises into a buffer on the stack and encodes each piece when it is complete. Returns false, without having
// appended anything, if the text is too long for the buffer or not ASCII.
bool WordPiece::encode_ascii(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::array<char, 128> buffer;
  unsigned char all = 0;
  for (const char byte : text) all |= static_cast<unsigned char>(byte);
  if (text.size() > buffer.size() || all >= 0x80) return false;
  std::size_t length = 0;
  const auto end_piece = [&] {
    if (length > 0) encode_piece({buffer.data(), length}, ids);
    length = 0;
  };
  for (const char byte : text) {
    const Ascii ascii = ascii_[static_cast<unsigned char>(byte)];
    if (ascii.kind == AsciiKind::kGone) continue;
    if (ascii.kind != AsciiKind::kLetter) end_piece();
    if (ascii.kind != AsciiKind::kSpace) buffer[length++] = ascii.normalized;
    if (ascii.kind == AsciiKind::kAlone) end_piece();
  }
  end_piece();
  return true;
}

void WordPiece::encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const {
  const UnicodeTables& tables = UnicodeTables::instance();
  std::size_t begin = 0;
  const auto end_piece = [&](std::size_t end) {
    if (begin < end) encode_piece(text.substr(begin, end - begin), ids);
    begin = end;
  };
  for (std::size_t position = 0; position < text.size();) {
    const DecodedChar decoded = decode_utf8(text, position);
    const std::uint8_t flags = tables.flags(decoded.code_point);
    if ((flags & (kWhiteSpace | kPunctuation)) != 0) end_piece(position);
    position += decoded.length;
    if ((flags & kWhiteSpace) != 0) begin = position;
    if ((flags & kPunctuation) != 0) end_piece(position);
  }
  end_piece(text.size());
}

void WordPiece::encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (const std::int32_t id = whole_pieces_.find(piece); id != kNoToken) {
    ids.push_back(id);
    return;
  }
  if (piece.size() > options_.max_word_chars && count_chars(piece) > options_.max_word_chars) {
    ids.push_back(options_.unknown);
    return;
  }
  const std::size_t before = ids.size();
  for (std::size_t position = 0; position < piece.size();) {
    const TrieMatch match = (position == 0 ? heads_ : rests_).longest(piece.substr(position));
    if (match.id == kNoToken) {
      ids.resize(before);
      ids.push_back(options_.unknown);
      return;
    }
    ids.push_back(match.id);
    position += match.length;
  }
}

void WordPiece::append_text(std::string_view token, std::string& text) const {
  if (token.starts_with(options_.continuing_prefix)) {
    text += token.substr(options_.continuing_prefix.size());
  } else {
    text.append(" ").append(token);
  }
}

}  // namespace plimsoll
