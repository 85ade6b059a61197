// Patterns that are searched for in a log's lines: plain text, no regular expressions, so that no line can make the
// search slow or deep.
//
//   "tried to allocate"     the line holds this, in capitals or not
//   "worker*killed"         first the one, later in the line the other
//   "^killed$"              the line begins, ends so (spaces around it aside)
//
// PatternSet finds every pattern of hundreds in one pass over a line: an automaton (Aho, Corasick 1975) looks for the
// longest piece of each, and only where that piece occurs is the whole pattern tried.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll::doctor {

// The place in a line where the pattern's first piece begins and its last one ends.
struct Match {
  std::size_t begin = 0, end = 0;
};
// Finds `pattern` in one line of small letters; returns nothing if the line does not match. The time is linear in the
// line for each piece.
std::optional<Match> find_match(std::string_view pattern, std::string_view small_letters);
bool matches(std::string_view pattern, std::string_view small_letters);

std::string to_small_letters(std::string_view text);
// Returns the text without blanks and tabs at its ends.
std::string_view trimmed(std::string_view text);

class PatternSet {
 public:
  // Returns the pattern's number: 0, 1, …; a pattern that was added before keeps its number. Patterns must be in small
  // letters and have a piece of at least two characters (InternalError).
  int add(std::string_view pattern);
  // Call it after the last `add` and before the first `find`.
  void prepare();
  // What a reader keeps from line to line. Each reader has its own, so that several can use one set.
  struct Search {
    std::vector<std::uint32_t> tried{};  // for each pattern, the last line that it was tried on
    std::uint32_t line = 0;
  };
  // Calls `found` once for every pattern that the line matches, in unspecified order.
  void find(std::string_view small_letters, Search& search, const std::function<void(int pattern)>& found) const;
  std::size_t size() const { return patterns_.size(); }
  std::string_view text(int pattern) const { return patterns_[static_cast<std::size_t>(pattern)]; }

 private:
  struct Node {
    std::int32_t fail = 0;
    std::int32_t output = -1;       // first pattern whose longest piece ends here
    std::int32_t next_output = -1;  // nearest node along `fail` that has an output
  };
  std::int32_t& edge(std::int32_t node, std::uint8_t letter) { return edges_[node * letters_ + letter]; }
  std::int32_t edge(std::int32_t node, std::uint8_t letter) const { return edges_[node * letters_ + letter]; }

  std::vector<std::string> patterns_;
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::int32_t> same_piece_;  // for a pattern, the next one with the same longest piece
  std::vector<Node> nodes_;
  std::vector<std::int32_t> edges_;
  std::uint8_t letter_of_[256] = {};  // 0: in no pattern
  std::int32_t letters_ = 0;
};

}  // namespace plimsoll::doctor
