#include "data/tokenizer_vocabulary.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kEmbeddedMerges =
#include "data/embedded_vocabulary.inc"
    ;

}  // namespace

TokenizerDefinition vocabulary_from_merges(std::string_view merges) {
  TokenizerDefinition definition;
  std::vector<BpeMerge>& kept = std::get<BpeOptions>(definition.model).merges;
  std::unordered_map<std::string, std::int32_t> id_of;
  const auto add = [&](std::string token) {
    const auto [entry, fresh] = id_of.emplace(token, static_cast<std::int32_t>(definition.tokens.size()));
    if (fresh) definition.tokens.push_back(std::move(token));
    return entry->second;
  };
  const auto add_special = [&](const char* content, bool lstrip) {
    const std::int32_t id = add(content);
    definition.added.push_back({.id = id, .content = content, .lstrip = lstrip, .normalized = true, .special = true});
    return id;
  };
  const auto find = [&](std::string_view token) {
    const auto entry = id_of.find(std::string(token));
    check(entry != id_of.end(), "a merge names an entry that no merge before it made");
    return entry->second;
  };

  definition.special.bos = add_special("<s>", false);
  definition.special.pad = add_special("<pad>", false);
  definition.special.eos = add_special("</s>", false);
  definition.special.unk = add_special("<unk>", false);
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    add(bytes_to_alphabet({&character, 1}));
  }
  while (!merges.empty()) {
    const std::string_view line = merges.substr(0, merges.find('\n'));
    merges.remove_prefix(std::min(merges.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    check(space != std::string_view::npos, "a merge is two entries with a space between");
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    const BpeMerge merge{find(left), find(right), add(std::string(left).append(right))};
    kept.push_back(merge);
  }
  definition.special.mask = add_special("<mask>", true);
  return definition;
}

TokenizerDefinition embedded_vocabulary() { return vocabulary_from_merges(kEmbeddedMerges); }

}  // namespace plimsoll
