#include "data/tokenizer_bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : seed_(seed) {}
  std::uint32_t below(std::uint32_t limit) { return philox4x32({counter_++, 0, 0, 0}, {seed_, 0})[0] % limit; }

 private:
  std::uint32_t seed_, counter_ = 0;
};

// Makes rules in which bytes are their own ids and merges join random earlier symbols of a-d, in random order.
BpeRules random_rules(Random& random, std::uint32_t merges) {
  BpeRules rules;
  for (std::int32_t byte = 0; byte < 256; ++byte) rules.byte_ids[static_cast<std::size_t>(byte)] = byte;
  for (std::uint32_t i = 0; i < merges; ++i) {
    const auto pick = [&] {
      const std::uint32_t symbol = random.below(4 + i);
      return static_cast<std::int32_t>(symbol < 4 ? 'a' + symbol : 256 + symbol - 4);
    };
    const std::int32_t left = pick(), right = pick();
    rules.merges.push_back({left, right, static_cast<std::int32_t>(256 + i)});
  }
  for (std::size_t i = rules.merges.size(); i > 1; --i) {
    std::swap(rules.merges[i - 1], rules.merges[random.below(static_cast<std::uint32_t>(i))]);
  }
  return rules;
}

// Implements the definition directly: scans every pair, merges the leftmost of lowest rank, begins again.
Ids reference_encode(const BpeRules& rules, std::string_view piece) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
  for (std::size_t rank = 0; rank < rules.merges.size(); ++rank) {
    ranks[{rules.merges[rank].left, rules.merges[rank].right}] = rank;
  }
  Ids ids;
  for (const char byte : piece) ids.push_back(rules.byte_ids[static_cast<unsigned char>(byte)]);
  while (true) {
    std::size_t best_rank = rules.merges.size(), best = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && found->second < best_rank) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank == rules.merges.size()) return ids;
    ids[best] = rules.merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, MergesByRankLeftmostFirst) {
  BpeRules rules;
  for (std::int32_t byte = 0; byte < 256; ++byte) rules.byte_ids[static_cast<std::size_t>(byte)] = byte;
  rules.merges = {{'b', 'c', 256}, {'a', 'b', 257}, {'a', 'a', 258}};
  const Bpe bpe(rules);
  Ids ids = {-7};
  bpe.encode("abc", ids);
  EXPECT_EQ(ids, (Ids{-7, 'a', 256}));  // it appends; "bc" has the better rank though "ab" comes first
  ids.clear();
  bpe.encode("aaab", ids);
  EXPECT_EQ(ids, (Ids{258, 257}));
  bpe.encode("", ids);
  EXPECT_EQ(ids.size(), 2U);
}

TEST(Bpe, EqualsTheDefinitionOnRandomMergesAndPiecesOfAllLengths) {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    const BpeRules rules = random_rules(random, 1 + random.below(200));
    const Bpe bpe(rules);
    for (int sample = 0; sample < 40; ++sample) {
      // Pieces of 1 to 64 bytes take one path through the code, longer ones another.
      const std::uint32_t length = 1 + (sample < 20 ? random.below(20) : 50 + random.below(150));
      std::string piece;
      for (std::uint32_t i = 0; i < length; ++i) piece += static_cast<char>('a' + random.below(5));
      Ids ids;
      bpe.encode(piece, ids);
      ASSERT_EQ(ids, reference_encode(rules, piece)) << piece;
    }
  }
}

TEST(Bpe, RepeatedPairCountsByItsLastRank) {
  BpeRules rules;
  for (std::int32_t byte = 0; byte < 256; ++byte) rules.byte_ids[static_cast<std::size_t>(byte)] = byte;
  rules.merges = {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 256}};
  Ids ids;
  Bpe(rules).encode("abc", ids);
  EXPECT_EQ(ids, (Ids{'a', 257}));
}

TEST(Bpe, RefusesAMergeWithoutToken) {
  BpeRules rules;
  rules.merges = {{'a', 'b', kNoToken}};
  EXPECT_THROW(Bpe{rules}, InternalError);
}

TEST(PieceTable, FindsWhatWasInsertedAndNothingElse) {
  Random random(12);
  std::map<std::string, std::int32_t> expected;
  PieceTable table(3000);
  for (std::int32_t id = 0; id < 3000; ++id) {
    std::string piece;
    // Few different bytes are used, so that pieces share heads and tails.
    for (std::uint32_t i = 0, n = 1 + random.below(PieceTable::kMaxPieceBytes); i < n; ++i)
      piece += static_cast<char>('a' + random.below(2));
    expected[piece] = id;
    table.insert(piece, id);
  }
  for (const auto& [piece, id] : expected) EXPECT_EQ(table.find(piece), id) << piece;
  for (int sample = 0; sample < 20000; ++sample) {
    std::string piece;
    for (std::uint32_t i = 0, n = random.below(19); i < n; ++i) piece += static_cast<char>('a' + random.below(2));
    const auto found = expected.find(piece);
    ASSERT_EQ(table.find(piece), found == expected.end() ? kNoToken : found->second) << piece;
  }
  EXPECT_THROW(table.insert("", 1), InternalError);
  EXPECT_THROW(table.insert("seventeen bytes..", 1), InternalError);
}

TEST(PieceTable, TellsZeroBytesFromNothing) {
  PieceTable table(4);
  const std::string zeros(16, '\0');
  EXPECT_EQ(table.find(std::string_view(zeros).substr(0, 3)), kNoToken);
  table.insert(std::string_view(zeros).substr(0, 2), 5);
  EXPECT_EQ(table.find(std::string_view(zeros).substr(0, 2)), 5);
  EXPECT_EQ(table.find(std::string_view(zeros).substr(0, 3)), kNoToken);
  EXPECT_EQ(table.find(std::string_view(zeros).substr(0, 1)), kNoToken);
}

}  // namespace
}  // namespace plimsoll
