// Finds the tokens that a text begins with in one walk through a prefix tree over bytes.
//
//   const PrefixTrie trie({{"in", 1}, {"inv", 2}, {"invoice", 3}});
//   const TrieMatch match = trie.longest("invoices");                     // id 3, 7 bytes
//
// Nodes are numbered level by level, so the children of a node lie side by side and a node takes nine bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer_bpe.h"

namespace plimsoll {

struct TrieMatch {
  std::int32_t id = kNoToken;
  std::size_t length = 0;  // in bytes
};

class PrefixTrie {
 public:
  // Of equal keys the last counts. Empty keys are left out, because they match nothing. Ids are not negative.
  explicit PrefixTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  // Returns the longest key that `text` begins with; kNoToken if there is none.
  TrieMatch longest(std::string_view text) const {
    TrieMatch match;
    each(text, [&](std::int32_t id, std::size_t length) { match = {id, length}; });
    return match;
  }

  // Calls found(id, length) for each key that `text` begins with, the shortest first.
  template <typename Found>
  void each(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    std::uint32_t node = root_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node != 0; ++length) {
      if (ids_[node] != kNoToken) found(ids_[node], length);
      if (length == text.size()) return;
      node = child(node, static_cast<unsigned char>(text[length]));
    }
  }

  std::size_t memory_bytes() const {
    return first_child_.capacity() * sizeof(std::uint32_t) + ids_.capacity() * sizeof(std::int32_t) +
           labels_.capacity();
  }

 private:
  // Returns 0, the root, if there is no such child.
  std::uint32_t child(std::uint32_t node, unsigned char label) const {
    const std::uint32_t begin = first_child_[node], count = first_child_[node + 1] - begin;
    const unsigned char* const labels = labels_.data() + begin;
    constexpr std::uint32_t kFew = 6;  // fewer are compared here: a call would take longer
    if (count > kFew) {
      const void* const found = std::memchr(labels, label, count);
      return found == nullptr ? 0
                              : begin + static_cast<std::uint32_t>(static_cast<const unsigned char*>(found) - labels);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (labels[i] == label) return begin + i;
    }
    return 0;
  }

  std::array<std::uint32_t, 256> root_{};   // the root's children by label
  std::vector<std::uint32_t> first_child_;  // a node's children are [first_child_[node], first_child_[node + 1])
  std::vector<std::int32_t> ids_;
  std::vector<unsigned char> labels_;  // the byte that leads to a node
};

}  // namespace plimsoll
