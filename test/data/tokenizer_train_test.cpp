#include "data/tokenizer_train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "data/tokenizer.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_vocabulary.h"

namespace plimsoll {
namespace {

// Implements the definition: counts all pairs again, merges the most frequent everywhere, from the left, repeats.
std::string reference_train(const PieceCounts& counts, std::size_t new_entries) {
  using Symbols = std::vector<std::string>;
  std::vector<std::pair<Symbols, std::uint64_t>> pieces;
  std::set<std::string> entries;
  for (const auto& [text, count] : counts) {
    Symbols symbols;
    for (const char byte : text) symbols.emplace_back(1, byte);
    pieces.emplace_back(symbols, count);
  }
  std::string merges;
  while (entries.size() < new_entries) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> pairs;
    for (const auto& [symbols, count] : pieces) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) pairs[{symbols[i], symbols[i + 1]}] += count;
    }
    const auto best =
        std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    const auto [left, right] = best->first;
    merges += bytes_to_alphabet(left) + " " + bytes_to_alphabet(right) + "\n";
    entries.insert(left + right);
    for (auto& [symbols, count] : pieces) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] += right;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST(CountPieces, CutsAsTheTokenizerDoes) {
  PieceCounts counts;
  count_pieces(" TOTAL: 12.90", 3, counts);
  count_pieces(" TOTAL", 2, counts);
  EXPECT_EQ(counts, (PieceCounts{{" TOTAL", 5}, {":", 3}, {" 12", 3}, {".", 3}, {"90", 3}}));
}

TEST(TrainMerges, EqualsTheDefinition) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::uint32_t counter = 0;
    const auto draw = [&](std::uint32_t limit) { return philox4x32({counter++, 0, 0, 0}, {seed, 9})[0] % limit; };
    PieceCounts counts;
    for (int piece = 0; piece < 60; ++piece) {
      std::string text;
      for (std::uint32_t left = 1 + draw(10); left > 0; --left) text += static_cast<char>('a' + draw(3));
      counts[text] += 1 + draw(4);
    }
    EXPECT_EQ(train_merges(counts, 80), reference_train(counts, 80)) << seed;
  }
}

TEST(TrainMerges, StopsWhereNothingRepeats) {
  EXPECT_EQ(train_merges({{"ab", 2}, {"cd", 1}}, 10), "a b\n");
  EXPECT_EQ(train_merges({}, 10), "");
}

TEST(EmbeddedVocabulary, IsWellFormed) {
  const TokenizerDefinition vocabulary = embedded_vocabulary();
  EXPECT_EQ(vocabulary.tokens.size(), 8000U);
  EXPECT_EQ(vocabulary.added.size(), 5U);
  EXPECT_EQ(std::set<std::string>(vocabulary.tokens.begin(), vocabulary.tokens.end()).size(), 8000U);
  // Encoding the bytes of a merged entry gives that entry, so every entry is useful.
  const Tokenizer tokenizer = Tokenizer::embedded();
  for (const BpeMerge& merge : std::get<BpeOptions>(vocabulary.model).merges) {
    const std::string bytes = tokenizer.decode(std::vector{merge.result});
    if (bytes[0] != ' ' || find_invalid_utf8(bytes)) continue;
    std::vector<std::int32_t> ids;
    tokenizer.encode_word(bytes, ids);
    EXPECT_EQ(ids, std::vector{merge.result}) << bytes;
  }
}

TEST(EmbeddedVocabulary, KnowsTheWordsOfReceipts) {
  const Tokenizer tokenizer = Tokenizer::embedded();
  for (const char* word :
       {"TOTAL", "Total", "CASH", "Change", "TAX", "INVOICE", "RM", "GST", "JALAN", "SDN", "BHD", "2018"}) {
    std::vector<std::int32_t> ids;
    tokenizer.encode_word(word, ids);
    EXPECT_EQ(ids.size(), 1U) << word;
  }
}

TEST(VocabularyFromMerges, RefusesWhatItCannotNumber) {
  EXPECT_THROW(vocabulary_from_merges("ab c\n"), InternalError);
  EXPECT_THROW(vocabulary_from_merges("a\n"), InternalError);
}

}  // namespace
}  // namespace plimsoll
