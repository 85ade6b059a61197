#include "data/tokenizer_charsmap.h"

#include "data/tokenizer_graphemes.h"
#include "data/tokenizer_split.h"
#include "formats/little_endian.h"

namespace plimsoll {
namespace {

constexpr std::size_t kWholeClusterBytes = 6;  // clusters of fewer bytes are looked up as a whole

// These functions return the fields of a unit of the double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

std::optional<CharsMap> CharsMap::parse(std::string_view bytes) {
  constexpr std::size_t kUnitBytes = sizeof(std::uint32_t);
  if (bytes.size() < kUnitBytes) return std::nullopt;
  const auto word = [&](std::size_t position) {
    return load_little_endian<std::uint32_t>(std::as_bytes(std::span(bytes)).subspan(position));
  };
  const std::size_t trie_bytes = word(0);
  if (trie_bytes > bytes.size() - kUnitBytes || trie_bytes % kUnitBytes != 0 || trie_bytes == 0) return std::nullopt;
  CharsMap map;
  map.units_.resize(trie_bytes / kUnitBytes);
  for (std::size_t i = 0; i < map.units_.size(); ++i) map.units_[i] = word((i + 1) * kUnitBytes);
  map.texts_ = bytes.substr(kUnitBytes + trie_bytes);
  if (find_invalid_utf8(map.texts_)) return std::nullopt;
  return map;
}

std::optional<std::string_view> CharsMap::find(std::string_view text) const {
  std::size_t place = offset_of(units_[0]);
  for (const char byte : text) {
    const std::uint32_t label = static_cast<unsigned char>(byte);
    place ^= label;
    if (label == 0 || place >= units_.size() || label_of(units_[place]) != label) return std::nullopt;
    const std::uint32_t unit = units_[place];
    place ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (place >= units_.size()) return std::nullopt;
    const std::size_t begin = value_of(units_[place]);
    if (begin > texts_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(texts_).substr(begin);
    if (!rest.empty() && (static_cast<unsigned char>(rest[0]) & 0xC0) == 0x80) return std::nullopt;
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

std::string CharsMap::normalize(std::string_view text) const {
  std::string normalized;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = grapheme_end(text, begin);
    const auto whole = end - begin < kWholeClusterBytes ? find(text.substr(begin, end - begin)) : std::nullopt;
    if (whole) {
      normalized += *whole;
      begin = end;
    }
    while (begin < end) {
      const std::string_view character = text.substr(begin, decode_utf8(text, begin).length);
      normalized += find(character).value_or(character);
      begin += character.size();
    }
  }
  return normalized;
}

}  // namespace plimsoll
