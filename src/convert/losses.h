// What is lost while files are converted, counted by kind, so that each kind is reported once, with its number.
//
//   Losses losses;
//   losses.add({"word is uncertain and left out", "words are uncertain and left out"}, "scan.tsv:17");
//   for (const std::string& line : losses.lines()) use(line);  // "1 word is uncertain and left out (scan.tsv:17)"
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

// A kind of loss, for one and for several: the rest of a sentence, with its verb, after the number.
struct Loss {
  const char* one;
  const char* many;
};

class Losses {
 public:
  // `where` is the place; the first one is shown.
  void add(const Loss& loss, const std::string& where, std::uint64_t count = 1);
  // Returns one sentence per kind, with its number and its first place.
  std::vector<std::string> lines() const;
  bool empty() const { return counts_.empty(); }

 private:
  struct Count {
    std::string many;
    std::uint64_t count = 0;
    std::string first_place;
  };
  std::map<std::string, Count> counts_;  // by the singular sentence
};

}  // namespace plimsoll
