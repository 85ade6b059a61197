// Normalises the text of Unigram tokenizers by a SentencePiece character map. It consists of a trie of keys in a double
// array (darts-clone's format) and of the texts that replace them.
//
//   const std::optional<CharsMap> map = CharsMap::parse(bytes);             // nothing: the bytes are no such map
//   std::string text = map->normalize("\uFF34\u2122");                     // "TTM", with the rules of nmt_nfkc
//
// `tokenizers` looks up a whole grapheme cluster if it has fewer than six bytes, and replaces it if any beginning of it
// is a key; otherwise it looks up its characters one by one. We do the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class CharsMap {
 public:
  // The bytes are the trie's size (32 bits, little endian), its units, and the texts, each ended by a zero byte.
  static std::optional<CharsMap> parse(std::string_view bytes);

  // Returns the replacement of the shortest key that `text` begins with. Damaged places of the map match nothing.
  std::optional<std::string_view> find(std::string_view text) const;
  // `text` is valid UTF-8, and so is the result.
  std::string normalize(std::string_view text) const;

  std::size_t memory_bytes() const { return units_.size() * sizeof(std::uint32_t) + texts_.size(); }

 private:
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace plimsoll
