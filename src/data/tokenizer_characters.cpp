#include "data/tokenizer_characters.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

std::array<std::int32_t, 256> byte_ids_of(const std::vector<std::string>& tokens) {
  std::array<std::int32_t, 256> ids;
  ids.fill(kNoToken);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (const std::optional<unsigned char> byte = byte_of_token(tokens[id])) ids[*byte] = static_cast<std::int32_t>(id);
  }
  for (const std::int32_t id : ids) check(id != kNoToken, "every byte has a token");
  return ids;
}

PieceTable characters_of(const std::vector<std::string>& tokens) {
  PieceTable table(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    if (token.empty() || find_invalid_utf8(token) || decode_utf8(token, 0).length != token.size()) continue;
    table.insert(token, static_cast<std::int32_t>(id));
  }
  return table;
}

std::string marked(std::string_view text, bool begins_with_mark) {
  std::string result(begins_with_mark ? kSpaceMark : std::string_view());
  for (const char byte : text) {
    if (byte == ' ') {
      result += kSpaceMark;
    } else {
      result += byte;
    }
  }
  return result;
}

}  // namespace

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<unsigned char> byte_of_token(std::string_view token) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const std::size_t high = kDigits.find(token[3]), low = kDigits.find(token[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned char>(16 * high + low);
}

CharacterBpe::CharacterBpe(const std::vector<std::string>& tokens, const BpeOptions& options)
    : rules_(*options.characters),
      byte_ids_(byte_ids_of(tokens)),
      bpe_({.byte_ids = byte_ids_, .merges = options.merges}),
      characters_(characters_of(tokens)) {}

void CharacterBpe::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  rules_.by_normalizer ? encode_marked(normalize(text), ids) : encode_with(text, true, ids);
}

void CharacterBpe::encode_running(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (rules_.by_normalizer) return encode_marked(normalize(text), ids);
  encode_with(text, rules_.prefix != CharacterRules::Prefix::kNever, ids);
}

void CharacterBpe::encode_behind(std::string_view text, std::vector<std::int32_t>& ids, bool) const {
  if (rules_.by_normalizer) return encode_marked(normalize(text), ids);
  encode_with(text, rules_.prefix == CharacterRules::Prefix::kAlways, ids);
}

std::string CharacterBpe::normalize(std::string_view text) const {
  if (!rules_.by_normalizer || text.empty()) return std::string(text);
  return marked(text, true);
}

void CharacterBpe::encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const {
  rules_.by_normalizer ? encode_marked(text, ids) : encode_text(text, ids);
}
void CharacterBpe::encode_normalized_running(std::string_view text, std::vector<std::int32_t>& ids) const {
  rules_.by_normalizer ? encode_marked(text, ids) : encode_running(text, ids);
}
void CharacterBpe::encode_normalized_behind(std::string_view text, std::vector<std::int32_t>& ids, bool running) const {
  rules_.by_normalizer ? encode_marked(text, ids) : encode_behind(text, ids, running);
}

void CharacterBpe::encode_with(std::string_view text, bool sets, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  encode_marked(marked(text, sets && text[0] != ' ' && !text.starts_with(kSpaceMark)), ids);
}

void CharacterBpe::encode_marked(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> symbols;
  symbols.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view character = text.substr(begin, decode_utf8(text, begin).length);
    if (const std::int32_t id = characters_.find(character); id != kNoToken) {
      symbols.push_back(id);
    } else {
      for (const char byte : character) symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
    begin += character.size();
  }
  bpe_.merge(symbols, ids);
}

std::string CharacterBpe::spelled(std::string_view text) const {
  std::string result = normalize(text);
  for (std::size_t at = 0; (at = result.find(kSpaceMark, at)) != std::string::npos; ++at) {
    result.replace(at, kSpaceMark.size(), " ");
  }
  return result;
}

void CharacterBpe::append_text(std::string_view token, std::string& text) const {
  if (const std::optional<unsigned char> byte = byte_of_token(token)) {
    text += static_cast<char>(*byte);
    return;
  }
  for (std::size_t begin = 0; begin < token.size();) {
    if (token.substr(begin).starts_with(kSpaceMark)) {
      text += ' ';
      begin += kSpaceMark.size();
    } else {
      text += token[begin++];
    }
  }
}

}  // namespace plimsoll
