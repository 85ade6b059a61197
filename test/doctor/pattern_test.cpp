#include "doctor/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

TEST(Pattern, MatchesPiecesInOrder) {
  EXPECT_TRUE(matches("worker*killed", "dataloader worker (pid 3) is killed"));
  EXPECT_FALSE(matches("worker*killed", "killed a worker"));
  EXPECT_FALSE(matches("aba*ba", "aba")) << "pieces do not overlap";
  EXPECT_TRUE(matches("^killed$", "  killed "));
  EXPECT_FALSE(matches("^killed$", "killed by"));
  EXPECT_FALSE(matches("^killed$", "was killed"));
  EXPECT_TRUE(matches("^to do:*", "  to do:   pass"));
  EXPECT_FALSE(matches("^error: ", "an error: x"));
  EXPECT_TRUE(matches("a b*end$", "x a b y end"));
  EXPECT_FALSE(matches("a b*end$", "x a b y end."));
}

// The automaton finds what trying each pattern on each line finds: here every pattern of every rule, on every pattern.
TEST(Pattern, TheSetFindsWhatEachAloneMatches) {
  std::vector<std::string> all;
  for (const Rule& rule : all_rules()) {
    for (const std::string_view pattern : rule.when) all.emplace_back(pattern);
    for (const AnyOf& group : rule.with) all.insert(all.end(), group.begin(), group.end());
  }
  for (const char* pattern : {"ab", "bab", "abab", "b*abab", "aa*aa"}) all.emplace_back(pattern);
  PatternSet set;
  std::vector<int> numbers;
  for (const std::string& pattern : all) numbers.push_back(set.add(pattern));
  set.prepare();
  PatternSet::Search search;
  std::vector<std::string> lines = all;
  for (const char* line : {"ababab", "aaaa", "aaa", "babab abab", ""}) lines.emplace_back(line);
  for (std::string line : lines) {
    std::replace(line.begin(), line.end(), '*', ' ');
    std::vector<int> found, expected;
    set.find(line, search, [&](int pattern) { found.push_back(pattern); });
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (matches(all[i], line)) expected.push_back(numbers[i]);
    }
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    EXPECT_EQ(found, expected) << line;
  }
}

TEST(Pattern, RefusesWhatWouldMatchEverything) {
  PatternSet set;
  EXPECT_THROW(set.add(""), InternalError);
  EXPECT_THROW(set.add("a*b"), InternalError);
  EXPECT_THROW(set.add("CUDA"), InternalError);
}

}  // namespace
}  // namespace plimsoll::doctor
