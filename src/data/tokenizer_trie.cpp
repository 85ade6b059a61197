#include "data/tokenizer_trie.h"

#include <algorithm>

namespace plimsoll {

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys) {
  const auto by_text = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(keys.begin(), keys.end(), by_text);
  // A node represents the keys [begin, end), which agree in their first `depth` bytes.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> nodes = {{0, keys.size(), 0}};
  labels_.push_back(0);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    first_child_.push_back(static_cast<std::uint32_t>(nodes.size()));
    Range range = nodes[node];
    std::int32_t id = kNoToken;
    for (; range.begin < range.end && keys[range.begin].first.size() == range.depth; ++range.begin) {
      id = keys[range.begin].second;
    }
    ids_.push_back(node == 0 ? kNoToken : id);
    const auto label = [&](std::size_t key) { return static_cast<unsigned char>(keys[key].first[range.depth]); };
    for (std::size_t begin = range.begin; begin < range.end;) {
      std::size_t end = begin;
      while (end < range.end && label(end) == label(begin)) ++end;
      if (node == 0) root_[label(begin)] = static_cast<std::uint32_t>(nodes.size());
      labels_.push_back(label(begin));
      nodes.push_back({begin, end, range.depth + 1});
      begin = end;
    }
  }
  first_child_.push_back(static_cast<std::uint32_t>(nodes.size()));
}

}  // namespace plimsoll
