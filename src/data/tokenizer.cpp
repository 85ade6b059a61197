#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/tokenizer_bpe_model.h"
#include "data/tokenizer_characters.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_unigram.h"
#include "data/tokenizer_vocabulary.h"
#include "data/tokenizer_wordpiece.h"

namespace plimsoll {
namespace {

constexpr std::uint8_t kNotAscii = 1;
constexpr std::uint8_t kMayBeginAdded = 2;

std::unique_ptr<const TokenModel> make_model(const TokenizerDefinition& definition) {
  if (const auto* options = std::get_if<BpeOptions>(&definition.model)) {
    if (options->characters) return std::make_unique<CharacterBpe>(definition.tokens, *options);
    return std::make_unique<BpeModel>(definition.tokens, *options);
  }
  std::vector<std::string> own = definition.tokens;
  for (const AddedToken& token : definition.added) {
    if (token.outside) own[static_cast<std::size_t>(token.id)].clear();
  }
  if (const auto* options = std::get_if<WordPieceOptions>(&definition.model)) {
    return std::make_unique<WordPiece>(own, *options);
  }
  return std::make_unique<Unigram>(own, std::get<UnigramOptions>(definition.model));
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
                   .remedy = "write it in UTF-8"});
}

}  // namespace

// Calls `added` with the id of each of the matcher's tokens in `text` and the end of its content there, and `between`
// with each stretch of text around them and whether something precedes the stretch.
template <typename Added, typename Between>
void Tokenizer::encode_around(const AddedMatcher& matcher, std::string_view text, const Added& added,
                              const Between& between) {
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
    if (done < begin) between(text.substr(done, begin - done), done > 0);
    added(found->id, position);
    done = end;
  }
  if (done < text.size()) between(text.substr(done), done > 0);
}

Tokenizer Tokenizer::from_directory(const std::filesystem::path& path) { return Tokenizer(read_tokenizer_files(path)); }

Tokenizer Tokenizer::embedded(bool takes_boxes) {
  TokenizerDefinition definition = embedded_vocabulary();
  std::get<BpeOptions>(definition.model).takes_boxes = takes_boxes;
  return Tokenizer(std::move(definition));
}

Tokenizer::Tokenizer(TokenizerDefinition definition)
    : definition_(std::move(definition)), model_(make_model(definition_)) {
  add_matchers();
  // The model keeps the rules; the lists themselves are only needed to write a tokenizer that has no files.
  if (auto* bpe = std::get_if<BpeOptions>(&definition_.model); bpe != nullptr && !definition_.files.empty()) {
    bpe->merges = std::vector<BpeMerge>();
  }
  if (auto* unigram = std::get_if<UnigramOptions>(&definition_.model)) {
    unigram->scores = std::vector<double>();
    unigram->normalization.clear();
  }
}

void Tokenizer::add_matchers() {
  for (const AddedToken& token : definition_.added) {
    AddedMatcher& matcher = added_[token.normalized ? 1 : 0];
    matcher.tokens.push_back(token);
    std::string& content = matcher.tokens.back().content;
    if (token.normalized && model_->normalizes()) content = model_->normalize(content);
    if (content.empty()) {
      throw DataError({.what = "an added token has no text that could be found",
                       .where = "tokenizer",
                       .found = fmt::format("\"{}\", nothing after normalisation", token.content),
                       .allowed = "text that is left when it is normalised",
                       .remedy = "set \"normalized\" of this token to false in the tokenizer's files"});
    }
    const auto first = static_cast<unsigned char>(content[0]);
    matcher.first_byte[first] = true;
    byte_flags_[first] |= kMayBeginAdded;
  }
  for (AddedMatcher& matcher : added_) {
    // The longest of the tokens that begin at the same place wins, so it is tried first.
    std::stable_sort(matcher.tokens.begin(), matcher.tokens.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  }
  for (std::size_t byte = 0x80; byte < 256; ++byte) byte_flags_[byte] |= kNotAscii;
  if (model_->normalizes() && !added_[1].tokens.empty()) {
    // Any character may become the first one of such a token.
    for (std::uint8_t& flags : byte_flags_) flags |= kMayBeginAdded;
  }
}

void Tokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::uint8_t flags = 0;
  for (const char byte : word) flags |= byte_flags_[static_cast<unsigned char>(byte)];
  if (flags & kNotAscii) {
    if (const auto position = find_invalid_utf8(word)) throw_invalid_utf8(word, *position);
  }
  (flags & kMayBeginAdded) != 0 ? encode_raw(word, ids, /*running=*/false) : model_->encode_text(word, ids);
}

void Tokenizer::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const auto position = find_invalid_utf8(text)) throw_invalid_utf8(text, *position);
  encode_raw(text, ids, /*running=*/true);
}

void Tokenizer::encode_whole_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto* const bpe = std::get_if<BpeOptions>(&definition_.model);
  const bool prefixes = bpe != nullptr && !bpe->characters && bpe->prefixes_texts;
  prefixes ? encode_word(text, ids) : encode_text(text, ids);
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

void Tokenizer::encode_raw(std::string_view text, std::vector<std::int32_t>& ids, bool running) const {
  encode_around(
      added_[0], text, [&](std::int32_t id, std::size_t) { ids.push_back(id); },
      [&](std::string_view between, bool behind) { encode_between_raw(between, ids, running, behind); });
}

// Encodes a stretch between the added tokens that are matched in raw text.
void Tokenizer::encode_between_raw(std::string_view text, std::vector<std::int32_t>& ids, bool running,
                                   bool behind) const {
  if (added_[1].tokens.empty()) {
    if (behind) return model_->encode_behind(text, ids, running);
    return running ? model_->encode_running(text, ids) : model_->encode_text(text, ids);
  }
  const auto encode = [&](std::string_view normalized) {
    encode_around(
        added_[1], normalized, [&](std::int32_t id, std::size_t) { ids.push_back(id); },
        [&](std::string_view between, bool behind_normalized) {
          if (behind || behind_normalized) return model_->encode_normalized_behind(between, ids, running);
          running ? model_->encode_normalized_running(between, ids) : model_->encode_normalized(between, ids);
        });
  };
  model_->normalizes() ? encode(model_->normalize(text)) : encode(text);
}

void Tokenizer::encode_parts(std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                             std::vector<std::int32_t>& parts_of_ids) const {
  std::string text;
  std::vector<std::size_t> ends;
  for (const std::string& part : parts) ends.push_back((text += part).size());
  if (const auto position = find_invalid_utf8(text)) throw_invalid_utf8(text, *position);
  const auto part_of_byte = [&](std::size_t byte) {
    return static_cast<std::int32_t>(std::ranges::upper_bound(ends, byte) - ends.begin());
  };
  encode_around(
      added_[0], text,
      [&](std::int32_t id, std::size_t end) {
        ids.push_back(id);
        parts_of_ids.push_back(part_of_byte(end - 1));
      },
      [&](std::string_view stretch, bool behind) {
        const std::size_t first = ids.size(), begin = static_cast<std::size_t>(stretch.data() - text.data());
        encode_between_raw(stretch, ids, /*running=*/true, behind);
        const std::span<const std::int32_t> own = std::span(ids).subspan(first);
        const std::int32_t last = part_of_byte(begin + stretch.size() - 1);
        for (std::int32_t part = part_of_byte(begin); part < last; ++part) {
          const std::size_t size = ends[static_cast<std::size_t>(part)] - begin;
          parts_of_ids.resize(std::max(parts_of_ids.size(), first + ids_within(stretch, size, own, behind)), part);
        }
        parts_of_ids.resize(ids.size(), last);
      });
}

std::size_t Tokenizer::ids_within(std::string_view stretch, std::size_t size, std::span<const std::int32_t> ids,
                                  bool behind) const {
  const std::string before = model_->spelled(stretch.substr(0, size)), whole = model_->spelled(stretch);
  std::string spelled;
  std::size_t count = 0, put = 0;  // put: of a space in front that the text does not have
  for (; count < ids.size(); ++count) {
    const auto added = std::ranges::find(added_[1].tokens, ids[count], &AddedToken::id);
    if (added != added_[1].tokens.end()) {
      spelled += added->content;
    } else {
      model_->append_text(id_to_token(ids[count]), spelled);
    }
    if (count == 0 && spelled.starts_with(' ') && !whole.starts_with(spelled)) put = 1;
    if (spelled.size() > before.size() + put) break;
  }
  const std::string_view text = std::string_view(spelled).substr(put);
  if (whole.starts_with(text.substr(0, whole.size())) && text.size() >= before.size()) return count;
  std::vector<std::int32_t> alone;
  encode_between_raw(stretch.substr(0, size), alone, /*running=*/true, behind);
  return std::min(alone.size(), ids.size());
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
    if (id >= vocab_size()) continue;  // a model's table may have more rows than there are tokens, and choose one
    const std::string_view token = id_to_token(id);
    const auto added = std::find_if(definition_.added.begin(), definition_.added.end(),
                                    [&](const AddedToken& other) { return other.id == id; });
    if (added == definition_.added.end()) {
      model_->append_text(token, text);
    } else if (keep_special || !added->special) {
      text += added->content;
    }
  }
  return text;
}

FileSums Tokenizer::save(const std::filesystem::path& directory, TokenizerUse use) const {
  return write_tokenizer_files(definition_, directory, use);
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
  const auto* bpe = std::get_if<BpeOptions>(&definition_.model);
  std::size_t bytes = model_->memory_bytes() + (bpe == nullptr ? 0 : bpe->merges.capacity() * sizeof(BpeMerge)) +
                      definition_.tokens.capacity() * sizeof(std::string);
  for (const std::string& token : definition_.tokens) {
    if (token.capacity() > std::string().capacity()) bytes += token.capacity() + 1;
  }
  for (const TokenizerFile& file : definition_.files) bytes += file.content.capacity();
  return bytes;
}

}  // namespace plimsoll
