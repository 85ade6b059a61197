#include "doctor/pattern.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::doctor {
namespace {

std::string_view longest_piece(std::string_view pattern) {
  if (pattern.starts_with('^')) pattern.remove_prefix(1);
  if (pattern.ends_with('$')) pattern.remove_suffix(1);
  std::string_view longest;
  while (true) {
    const std::size_t star = std::min(pattern.find('*'), pattern.size());
    if (star > longest.size()) longest = pattern.substr(0, star);
    if (star == pattern.size()) return longest;
    pattern.remove_prefix(star + 1);
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string to_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

std::optional<Match> find_match(std::string_view pattern, std::string_view small_letters) {
  const std::string_view whole = trimmed(small_letters);
  std::string_view line = whole;
  const auto offset = [&](std::string_view part) {
    return static_cast<std::size_t>(part.data() - small_letters.data());
  };
  const bool at_begin = pattern.starts_with('^'), at_end = pattern.ends_with('$');
  if (at_begin) pattern.remove_prefix(1);
  if (at_end) pattern.remove_suffix(1);
  std::optional<std::size_t> begin;
  while (true) {
    const std::size_t star = std::min(pattern.find('*'), pattern.size());
    const std::string_view piece = pattern.substr(0, star);
    const bool first = !begin, last = star == pattern.size();
    if (last && at_end) {
      const bool ends = first && at_begin ? line == piece : line.ends_with(piece);
      if (!ends) return {};
      const std::size_t place = offset(line) + line.size() - piece.size();
      return Match{begin.value_or(place), place + piece.size()};
    }
    const std::size_t place = line.find(piece);
    if (place == std::string_view::npos || (first && at_begin && place != 0)) return {};
    if (first) begin = offset(line) + place;
    line.remove_prefix(place + piece.size());
    if (last) return Match{*begin, offset(line)};
    pattern.remove_prefix(star + 1);
  }
}

bool matches(std::string_view pattern, std::string_view small_letters) {
  return find_match(pattern, small_letters).has_value();
}

int PatternSet::add(std::string_view pattern) {
  const auto known = numbers_.find(std::string(pattern));
  if (known != numbers_.end()) return known->second;
  check(to_small_letters(pattern) == pattern, "a pattern is of small letters: " + std::string(pattern));
  check(longest_piece(pattern).size() >= 2, "a pattern needs a piece of two characters: " + std::string(pattern));
  numbers_.emplace(pattern, static_cast<int>(patterns_.size()));
  patterns_.emplace_back(pattern);
  return static_cast<int>(patterns_.size() - 1);
}

void PatternSet::prepare() {
  for (const std::string& pattern : patterns_) {
    for (const char c : pattern) {
      std::uint8_t& letter = letter_of_[static_cast<std::uint8_t>(c)];
      if (letter == 0) letter = static_cast<std::uint8_t>(++letters_);
    }
  }
  ++letters_;  // 0 is every other character
  same_piece_.assign(patterns_.size(), -1);
  nodes_.assign(1, {});
  edges_.assign(static_cast<std::size_t>(letters_), -1);
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    std::int32_t node = 0;
    for (const char c : longest_piece(patterns_[i])) {
      const std::uint8_t letter = letter_of_[static_cast<std::uint8_t>(c)];
      if (edge(node, letter) < 0) {
        edge(node, letter) = static_cast<std::int32_t>(nodes_.size());
        nodes_.emplace_back();
        edges_.resize(edges_.size() + static_cast<std::size_t>(letters_), -1);
      }
      node = edge(node, letter);
    }
    same_piece_[i] = nodes_[node].output;
    nodes_[node].output = static_cast<std::int32_t>(i);
  }
  // Breadth first: a missing transition is taken from the longest proper suffix.
  std::vector<std::int32_t> order;
  for (std::int32_t letter = 0; letter < letters_; ++letter) {
    std::int32_t& to = edge(0, static_cast<std::uint8_t>(letter));
    if (to < 0) to = 0;
    if (to != 0) order.push_back(to);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t node = order[i], fail = nodes_[node].fail;
    nodes_[node].next_output = nodes_[fail].output >= 0 ? fail : nodes_[fail].next_output;
    for (std::int32_t letter = 0; letter < letters_; ++letter) {
      std::int32_t& to = edge(node, static_cast<std::uint8_t>(letter));
      const std::int32_t instead = edge(fail, static_cast<std::uint8_t>(letter));
      if (to < 0) {
        to = instead;
      } else {
        nodes_[to].fail = instead;
        order.push_back(to);
      }
    }
  }
}

void PatternSet::find(std::string_view small_letters, Search& search, const std::function<void(int)>& found) const {
  search.tried.resize(patterns_.size());
  ++search.line;
  std::int32_t node = 0;
  for (const char c : small_letters) {
    node = edge(node, letter_of_[static_cast<std::uint8_t>(c)]);
    std::int32_t ending = nodes_[node].output >= 0 ? node : nodes_[node].next_output;
    for (; ending >= 0; ending = nodes_[ending].next_output) {
      for (std::int32_t i = nodes_[ending].output; i >= 0; i = same_piece_[i]) {
        if (search.tried[i] == search.line) continue;
        search.tried[i] = search.line;
        if (matches(patterns_[i], small_letters)) found(i);
      }
    }
  }
}

}  // namespace plimsoll::doctor
