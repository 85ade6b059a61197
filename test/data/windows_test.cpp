#include "data/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "data/pages_fixture.h"
#include "data/tokenizer.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;

// Returns a page of words with these numbers of tokens; ids run from 100.
PageTokens page_of(const std::vector<int>& lengths) {
  Page page;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    page.words.push_back(std::string(static_cast<std::size_t>(lengths[i]), 'x'));
  std::int32_t next = 100;
  PageTokens tokens;
  tokens.assign(page, {.encode = [&next](std::string_view word, std::vector<std::int32_t>& ids) {
                  for (std::size_t i = 0; i < word.size(); ++i) ids.push_back(next++);
                }});
  return tokens;
}

std::vector<Window> cut(const PageTokens& tokens, WindowOptions options) {
  std::vector<Window> windows;
  cut_windows(tokens, options, windows);
  return windows;
}

TEST(Windows, TokensKnowTheirWords) {
  const PageTokens tokens = page_of({2, 0, 1});
  EXPECT_THAT(tokens.ids, ElementsAre(100, 101, 102));
  EXPECT_THAT(tokens.words, ElementsAre(0, 0, 2));
  EXPECT_THAT(tokens.first_of_word, ElementsAre(0, kNoWord, 2));
}

TEST(Windows, TakesARealTokenizer) {
  const auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::embedded());
  const WordEncoder encoder = word_encoder(tokenizer);
  EXPECT_EQ(encoder.bos_id, tokenizer->special().bos);
  EXPECT_EQ(encoder.eos_id, tokenizer->special().eos);
  EXPECT_EQ(encoder.pad_id, tokenizer->special().pad);
  std::vector<std::int32_t> expected, ids;
  tokenizer->encode_word("TOTAL:", expected);
  encoder.encode("TOTAL:", ids);
  EXPECT_EQ(ids, expected);
  EXPECT_FALSE(ids.empty());
  // This tokenizer asks for a space in front of a whole text; those that a language model learns stand as they are.
  const std::vector<std::string> text = {"TOTAL:"};
  std::vector<std::int32_t> parts;
  ids.clear();
  encoder.encode_text(text, ids, parts);
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(parts, std::vector<std::int32_t>(ids.size(), 0));
  expected.clear();
  tokenizer->encode_text("TOTAL:", expected);
  EXPECT_NE(ids, expected);
  ids.clear();
  text_encoder(tokenizer).encode_text(text, ids, parts);
  EXPECT_EQ(ids, expected);
}

TEST(Windows, CutsTheExampleOfTheHeader) {
  const PageTokens tokens = page_of({2, 1, 3, 1, 2});
  const auto windows = cut(tokens, {.max_length = 7, .stride = 2});
  EXPECT_THAT(windows, ElementsAre(Window{0, 3}, Window{2, 7}, Window{6, 9}));
  std::vector<int> owners;
  for (const std::int32_t token : tokens.first_of_word) owners.push_back(owning_window(windows, token, 9));
  EXPECT_THAT(owners, ElementsAre(0, 0, 1, 1, 2));
}

TEST(Windows, ShortPagesHaveOne) {
  EXPECT_THAT(cut(page_of({2, 3}), {.max_length = 7, .stride = 2}), ElementsAre(Window{0, 5}));
  EXPECT_THAT(cut(page_of({}), {.max_length = 7, .stride = 2}), ElementsAre(Window{0, 0}));
  EXPECT_THAT(cut(page_of({0}), {.max_length = 7, .stride = 2}), ElementsAre(Window{0, 0}));
}

TEST(Windows, CutARunningTextAtAnyTokenAndOverlap) {
  Page page;
  page.words = {std::string(7, 'x'), std::string(2, 'x')};
  page.is_text = true;
  PageTokens tokens;
  tokens.assign(page, test::letters_encoder());
  EXPECT_TRUE(tokens.is_text);
  EXPECT_THAT(cut(tokens, {.max_length = 7, .stride = 2}), ElementsAre(Window{0, 5}, Window{3, 8}, Window{6, 9}));
  EXPECT_THAT(cut(tokens, {.max_length = 7, .stride = 0}), ElementsAre(Window{0, 5}, Window{5, 9}));
}

TEST(Windows, TruncatesOnlyWhenAsked) {
  EXPECT_THAT(cut(page_of({2, 2, 2}), {.max_length = 5, .stride = 0, .long_pages = LongPages::kTruncate}),
              ElementsAre(Window{0, 3}));
}

TEST(Windows, CutsAWordLongerThanAWindow) {
  EXPECT_THAT(cut(page_of({1, 12, 1}), {.max_length = 7, .stride = 2}),
              ElementsAre(Window{0, 1}, Window{1, 6}, Window{6, 11}, Window{11, 14}));
}

// Checks the guarantees on random pages.
TEST(Windows, LosesNoWordAndOwnsEachOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> lengths(random() % 40);
    const unsigned longest = round % 3 == 0 ? 20 : 5;
    for (int& length : lengths) length = static_cast<int>(random() % longest);
    const int max_length = 3 + static_cast<int>(random() % 20);
    const int stride = static_cast<int>(random() % static_cast<unsigned>(max_length - 2));
    const PageTokens tokens = page_of(lengths);
    const auto count = static_cast<std::int32_t>(tokens.ids.size());
    const auto windows = cut(tokens, {.max_length = max_length, .stride = stride});
    const std::int32_t content = max_length - 2;

    ASSERT_EQ(windows.front().begin, 0);
    ASSERT_EQ(windows.back().end, count);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const auto [begin, end] = windows[i];
      ASSERT_LE(end - begin, content);
      if (i == 0) continue;
      ASSERT_GT(end, windows[i - 1].end) << "each window brings something new";
      ASSERT_LE(begin, windows[i - 1].end) << "nothing lies between windows";
      ASSERT_LE(windows[i - 1].end - begin, stride);
    }
    for (std::size_t word = 0; word < lengths.size(); ++word) {
      const std::int32_t first = tokens.first_of_word[word];
      ASSERT_EQ(first == kNoWord, lengths[word] == 0);
      if (first == kNoWord) continue;
      const int owner = owning_window(windows, first, count);
      ASSERT_GE(owner, 0);
      const Window& window = windows[static_cast<std::size_t>(owner)];
      ASSERT_LE(window.begin, first);
      ASSERT_GT(window.end, first);
      if (lengths[word] <= content) {
        ASSERT_LE(first + lengths[word], window.end) << "a word that fits is whole in its window";
      }
    }
  }
}

TEST(Windows, RefusesOptionsThatMakeNoSense) {
  EXPECT_NO_THROW(validate({}));
  EXPECT_THROW(validate({.max_length = 2, .stride = 0}), UsageError);
  EXPECT_THROW(validate({.max_length = 70000, .stride = 0}), UsageError);
  EXPECT_THROW(validate({.max_length = 512, .stride = 510}), UsageError);
  EXPECT_THROW(validate({.max_length = 512, .stride = -1}), UsageError);
}

}  // namespace
}  // namespace plimsoll
