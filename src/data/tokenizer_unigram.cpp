#include "data/tokenizer_unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

constexpr double kUnknownPenalty = 10.0;

std::vector<std::pair<std::string_view, std::int32_t>> keys_of(const std::vector<std::string>& tokens) {
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  for (std::size_t id = 0; id < tokens.size(); ++id) keys.emplace_back(tokens[id], static_cast<std::int32_t>(id));
  return keys;
}

std::optional<CharsMap> charsmap_of(const UnigramOptions& options) {
  for (const NormalizerStep& step : options.normalization) {
    if (step.kind == NormalizerStep::Kind::kCharsMap) return CharsMap::parse(step.text);
  }
  return std::nullopt;
}

bool is_space(std::string_view text, std::size_t position) {
  return (UnicodeTables::instance().flags(decode_utf8(text, position).code_point) & kWhiteSpace) != 0;
}

std::size_t char_begin(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

std::string strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_space(text, 0)) text.remove_prefix(decode_utf8(text, 0).length);
  while (right && !text.empty() && is_space(text, char_begin(text, text.size()))) {
    text = text.substr(0, char_begin(text, text.size()));
  }
  return std::string(text);
}

std::string replace_all(std::string_view text, std::string_view pattern, std::string_view replacement) {
  std::string replaced;
  for (std::size_t found; (found = text.find(pattern)) != std::string_view::npos;) {
    replaced.append(text.substr(0, found)).append(replacement);
    text.remove_prefix(found + pattern.size());
  }
  return replaced.append(text);
}

// Replaces each run of at least two spaces.
std::string replace_spaces(std::string_view text, std::string_view replacement) {
  std::string replaced;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && text[end] == ' ') ++end;
    if (end - begin >= 2) {
      replaced += replacement;
      begin = end;
    } else {
      replaced += text[begin++];
    }
  }
  return replaced;
}

}  // namespace

Unigram::Unigram(const std::vector<std::string>& tokens, const UnigramOptions& options)
    : options_(options), charsmap_(charsmap_of(options)), trie_(keys_of(tokens)), scores_(options.scores) {
  check(options.unknown >= 0, "Unigram has an unknown token");
  scores_.resize(tokens.size());
  options_.scores = {};
  // All scores of the vocabulary count; added tokens have none.
  double smallest = std::numeric_limits<double>::infinity();
  for (const double score : options.scores) smallest = std::min(smallest, score);
  unknown_score_ = smallest - kUnknownPenalty;
  for (NormalizerStep& step : options_.normalization) {
    if (step.kind == NormalizerStep::Kind::kCharsMap) step.text.clear();  // charsmap_ holds it
  }
  const std::string_view separator = options_.replacement;
  for (std::size_t byte = 0; byte < 0x80; ++byte) {
    const char character = static_cast<char>(byte);
    const std::string_view text(&character, 1);
    const bool in_pattern = std::ranges::any_of(options_.normalization, [&](const NormalizerStep& step) {
      return step.kind == NormalizerStep::Kind::kReplace && step.pattern.find(character) != std::string::npos;
    });
    // A carriage return and a line feed are one cluster.
    plain_[byte] = character != '\r' && !is_space(text, 0) && !in_pattern && separator[0] != character &&
                   !(charsmap_ && charsmap_->find(text));
  }
}

void Unigram::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  const bool plain = std::ranges::all_of(text, [this](char byte) { return is_plain(byte); });
  if (!plain) return encode_normalized(normalize(text), ids);
  std::array<char, 256> buffer;
  const std::string_view prefix = options_.prepend && !text.empty() ? std::string_view(options_.replacement) : "";
  if (text.size() + prefix.size() > buffer.size()) return encode_piece(std::string(prefix).append(text), ids);
  std::copy(prefix.begin(), prefix.end(), buffer.begin());
  std::copy(text.begin(), text.end(), buffer.begin() + prefix.size());
  encode_piece({buffer.data(), prefix.size() + text.size()}, ids);
}

std::string Unigram::normalize(std::string_view text) const {
  std::string normalized(text);
  for (const NormalizerStep& step : options_.normalization) {
    switch (step.kind) {
      case NormalizerStep::Kind::kCharsMap:
        if (charsmap_) normalized = charsmap_->normalize(normalized);
        break;
      case NormalizerStep::Kind::kStrip:
        normalized = strip(normalized, step.left, step.right);
        break;
      case NormalizerStep::Kind::kReplace:
        normalized = replace_all(normalized, step.pattern, step.text);
        break;
      case NormalizerStep::Kind::kReplaceSpaces:
        normalized = replace_spaces(normalized, step.text);
        break;
    }
  }
  return normalized;
}

void Unigram::encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (!options_.split_white_space) return encode_part(text, ids);
  std::size_t begin = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = decode_utf8(text, position).length;
    if (is_space(text, position)) {
      encode_part(text.substr(begin, position - begin), ids);
      begin = position + length;
    }
    position += length;
  }
  encode_part(text.substr(begin), ids);
}

// Puts the separator in front and in place of spaces, and cuts the text before each.
void Unigram::encode_part(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  const std::string& separator = options_.replacement;
  std::string part = replace_all(text, " ", separator);
  if (options_.prepend && !part.starts_with(separator)) part.insert(0, separator);
  for (std::size_t begin = 0; begin < part.size();) {
    const std::size_t next = options_.split ? part.find(separator, begin + 1) : std::string::npos;
    const std::size_t end = std::min(next, part.size());
    encode_piece(std::string_view(part).substr(begin, end - begin), ids);
    begin = end;
  }
}

// Finds the best path by dynamic programming over the places between characters.
void Unigram::encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  struct Node {  // the best way to a place
    double score;
    std::int32_t id;      // of the last token
    std::uint32_t begin;  // where that token begins
  };
  constexpr std::size_t kShortPieceBytes = 64;
  std::array<Node, kShortPieceBytes + 1> few;
  std::vector<Node> many;
  if (piece.size() > kShortPieceBytes) many.resize(piece.size() + 1);
  Node* const nodes = piece.size() > kShortPieceBytes ? many.data() : few.data();
  std::fill_n(nodes, piece.size() + 1, Node{0.0, kNoToken, 0});

  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t char_length = decode_utf8(piece, begin).length;
    const double score = nodes[begin].score;
    bool covered = false;  // a token covers the character alone
    const auto reach = [&](std::int32_t id, std::size_t length, double next_score) {
      Node& node = nodes[begin + length];
      if (node.id == kNoToken || next_score > node.score) node = {next_score, id, static_cast<std::uint32_t>(begin)};
    };
    trie_.each(piece.substr(begin), [&](std::int32_t id, std::size_t length) {
      reach(id, length, scores_[static_cast<std::size_t>(id)] + score);
      covered = covered || length == char_length;
    });
    if (!covered) reach(options_.unknown, char_length, unknown_score_ + score);
    begin += char_length;
  }

  const std::size_t before = ids.size();
  for (std::size_t end = piece.size(); end > 0;) {
    std::size_t begin = nodes[end].begin;
    std::int32_t id = nodes[end].id;
    if (id == options_.unknown) {
      while (begin > 0 && nodes[begin].id == options_.unknown) begin = nodes[begin].begin;
      // The library looks the joined text up again, so it may be a token whose score was too small for the path.
      const TrieMatch whole = trie_.longest(piece.substr(begin, end - begin));
      if (whole.length == end - begin) id = whole.id;
    }
    ids.push_back(id);
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
}

void Unigram::append_text(std::string_view token, std::string& text) const {
  text += replace_all(token, options_.replacement, " ");
}

std::size_t Unigram::memory_bytes() const {
  return trie_.memory_bytes() + scores_.capacity() * sizeof(double) + (charsmap_ ? charsmap_->memory_bytes() : 0);
}

}  // namespace plimsoll
