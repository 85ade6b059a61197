#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/tokenizer_vocabulary.h"

namespace plimsoll {
namespace {

constexpr std::uint8_t kNotAscii = 1;
constexpr std::uint8_t kMayBeginAdded = 2;

BpeRules rules_of(const TokenizerDefinition& definition) {
  BpeRules rules;
  rules.byte_ids.fill(kNoToken);
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    const std::string& token = definition.tokens[id];
    const std::string bytes = alphabet_to_bytes(token);
    if (bytes.size() == 1 && bytes_to_alphabet(bytes) == token) {
      rules.byte_ids[static_cast<unsigned char>(bytes[0])] = static_cast<std::int32_t>(id);
    }
  }
  for (const std::int32_t id : rules.byte_ids) check(id != kNoToken, "every byte has a token");
  rules.merges = definition.merges;
  return rules;
}

// Returns the tokens that cutting into pieces and merging, the two slow steps, would leave unchanged. A token need not
// be one of these just because the vocabulary has it: merging by rank may never produce it.
PieceTable whole_pieces_of(const TokenizerDefinition& definition, const Bpe& bpe) {
  PieceTable table(definition.tokens.size());
  const CharClasses& classes = CharClasses::instance();
  std::vector<std::int32_t> ids;
  for (const std::string& token : definition.tokens) {
    const std::string bytes = alphabet_to_bytes(token);
    if (bytes.empty() || bytes.size() > PieceTable::kMaxPieceBytes || find_invalid_utf8(bytes) ||
        piece_end(bytes, 0, classes) != bytes.size()) {
      continue;
    }
    ids.clear();
    bpe.encode(bytes, ids);
    if (ids.size() == 1) table.insert(bytes, ids[0]);
  }
  return table;
}

bool is_python_space(char32_t code_point, const CharClasses& classes) {
  return (code_point >= 0x1C && code_point <= 0x1F) || classes(code_point) == CharClass::kSpace;
}

// Returns the start of the white space that ends text[0, end), not before `limit`.
std::size_t strip_back(std::string_view text, std::size_t limit, std::size_t end) {
  const CharClasses& classes = CharClasses::instance();
  while (end > limit) {
    std::size_t begin = end - 1;
    while (begin > limit && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (classes(decode_utf8(text, begin).code_point) != CharClass::kSpace) break;
    end = begin;
  }
  return end;
}

std::size_t strip_forward(std::string_view text, std::size_t begin) {
  const CharClasses& classes = CharClasses::instance();
  while (begin < text.size()) {
    const DecodedChar decoded = decode_utf8(text, begin);
    if (classes(decoded.code_point) != CharClass::kSpace) break;
    begin += decoded.length;
  }
  return begin;
}

[[noreturn]] void throw_invalid_utf8(std::string_view word, std::size_t position) {
  throw DataError({.what = "text is not UTF-8",
                   .where = fmt::format("byte {} of a word of {}", position, counted(word.size(), "byte")),
                   .found = fmt::format("0x{:02X}", static_cast<unsigned char>(word[position])),
                   .allowed = "UTF-8 without surrogates",
                   .remedy = "write the file again as UTF-8"});
}

}  // namespace

Tokenizer Tokenizer::from_directory(const std::filesystem::path& path) { return Tokenizer(read_tokenizer_files(path)); }

Tokenizer Tokenizer::embedded() { return Tokenizer(embedded_vocabulary()); }

Tokenizer::Tokenizer(TokenizerDefinition definition)
    : definition_(std::move(definition)),
      bpe_(rules_of(definition_)),
      whole_pieces_(whole_pieces_of(definition_, bpe_)) {
  for (const AddedToken& token : definition_.added) {
    check(!token.content.empty(), "an added token has text");
    AddedMatcher& matcher = added_[token.normalized ? 1 : 0];
    matcher.tokens.push_back(token);
    const auto first = static_cast<unsigned char>(token.content[0]);
    matcher.first_byte[first] = true;
    byte_flags_[first] |= kMayBeginAdded;
  }
  for (AddedMatcher& matcher : added_) {
    // The longest of the tokens that begin at the same place wins, so it is tried first.
    std::stable_sort(matcher.tokens.begin(), matcher.tokens.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  }
  for (std::size_t byte = 0x80; byte < 256; ++byte) byte_flags_[byte] |= kNotAscii;
  // bpe_ keeps the rules; the list itself is only needed to write a tokenizer that has no files.
  if (!definition_.files.empty()) definition_.merges = std::vector<BpeMerge>();
}

void Tokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::uint8_t flags = 0;
  for (const char byte : word) flags |= byte_flags_[static_cast<unsigned char>(byte)];
  if (flags & kNotAscii) {
    if (const auto position = find_invalid_utf8(word)) throw_invalid_utf8(word, *position);
  }
  flags& kMayBeginAdded ? encode_added(word, 0, ids) : encode_text(word, ids);
}

void Tokenizer::encode_question(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const auto position = find_invalid_utf8(text)) throw_invalid_utf8(text, *position);
  const CharClasses& classes = CharClasses::instance();
  std::size_t begin = 0;
  for (std::size_t position = 0; position < text.size();) {
    const DecodedChar decoded = decode_utf8(text, position);
    const std::size_t next = position + decoded.length;
    if (is_python_space(decoded.code_point, classes)) {
      encode_word(text.substr(begin, position - begin), ids);
      begin = next;
    }
    position = next;
  }
  encode_word(text.substr(begin), ids);
}

// Pass 0 looks for the added tokens that are matched in raw text. Pass 1 looks in the rest for those that are matched
// in normalised text (the same text here, as there is no normaliser). The stretches between are ordinary text.
void Tokenizer::encode_added(std::string_view text, std::size_t pass, std::vector<std::int32_t>& ids) const {
  if (pass == added_.size()) return encode_text(text, ids);
  const AddedMatcher& matcher = added_[pass];
  std::size_t done = 0;  // text before it has been encoded
  for (std::size_t position = 0; position < text.size();) {
    const AddedToken* found = nullptr;
    if (matcher.first_byte[static_cast<unsigned char>(text[position])]) {
      const auto match = std::find_if(matcher.tokens.begin(), matcher.tokens.end(), [&](const AddedToken& token) {
        return text.substr(position).starts_with(token.content);
      });
      if (match != matcher.tokens.end()) found = &*match;
    }
    if (found == nullptr) {
      ++position;
      continue;
    }
    std::size_t begin = position;
    std::size_t end = position + found->content.size();
    position = end;
    if (found->lstrip) begin = strip_back(text, std::min(done, begin), begin);
    if (found->rstrip) end = strip_forward(text, end);
    if (done < begin) encode_added(text.substr(done, begin - done), pass + 1, ids);
    ids.push_back(found->id);
    done = end;
  }
  if (done < text.size()) encode_added(text.substr(done), pass + 1, ids);
}

// Encodes a stretch without added tokens: prepends the space, then cuts and merges.
void Tokenizer::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  if (!definition_.add_prefix_space || text[0] == ' ') return encode_pieces(text, ids);
  std::array<char, 256> buffer;
  if (text.size() < buffer.size()) {
    buffer[0] = ' ';
    std::copy(text.begin(), text.end(), buffer.begin() + 1);
    return encode_pieces({buffer.data(), text.size() + 1}, ids);
  }
  encode_pieces(std::string(" ").append(text), ids);
}

void Tokenizer::encode_pieces(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const std::int32_t id = whole_pieces_.find(text); id != kNoToken) {
    ids.push_back(id);
    return;
  }
  const CharClasses& classes = CharClasses::instance();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin, classes);
    const std::string_view piece = text.substr(begin, end - begin);
    const std::int32_t id = whole_pieces_.find(piece);
    id != kNoToken ? ids.push_back(id) : bpe_.encode(piece, ids);
    begin = end;
  }
}

std::string_view Tokenizer::id_to_token(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw DataError({.what = "a token id lies outside the vocabulary",
                     .found = std::to_string(id),
                     .allowed = fmt::format("0 to {}", vocab_size() - 1),
                     .remedy = "use the tokenizer the ids were made with"});
  }
  return definition_.tokens[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool keep_special) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string_view token = id_to_token(id);
    const auto added = std::find_if(definition_.added.begin(), definition_.added.end(),
                                    [&](const AddedToken& other) { return other.id == id; });
    if (added == definition_.added.end()) {
      text += alphabet_to_bytes(token);
    } else if (keep_special || !added->special) {
      text += added->content;
    }
  }
  return text;
}

FileSums Tokenizer::save(const std::filesystem::path& directory) const {
  return write_tokenizer_files(definition_, directory);
}

std::uint64_t Tokenizer::fingerprint() const {
  std::uint64_t hash = 0;
  for (const TokenizerFile& file : tokenizer_files(definition_)) {
    for (const std::string* text : {&file.name, &file.content})
      hash = hash_bytes(std::as_bytes(std::span(*text)), hash);
  }
  return hash;
}

std::size_t Tokenizer::memory_bytes() const {
  std::size_t bytes = bpe_.memory_bytes() + whole_pieces_.memory_bytes() +
                      definition_.merges.capacity() * sizeof(BpeMerge) +
                      definition_.tokens.capacity() * sizeof(std::string);
  for (const std::string& token : definition_.tokens) {
    if (token.capacity() > std::string().capacity()) bytes += token.capacity() + 1;
  }
  for (const TokenizerFile& file : definition_.files) bytes += file.content.capacity();
  return bytes;
}

}  // namespace plimsoll
