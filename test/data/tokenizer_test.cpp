#include "data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;

const Tokenizer& embedded() {
  static const Tokenizer tokenizer = Tokenizer::embedded();
  return tokenizer;
}

Ids encode(const Tokenizer& tokenizer, std::string_view word) {
  Ids ids;
  tokenizer.encode_word(word, ids);
  return ids;
}

json golden() { return json::parse(read_text_file(test_data_dir() / "tokenizer_golden.json")); }

TEST(Tokenizer, EqualsHuggingFaceOnRandomUnicodeWords) {
  const json file = golden();
  ASSERT_GE(file.at("words").size(), 1000U);
  for (const json& entry : file.at("words")) {
    const std::string word = entry.at("word");
    EXPECT_EQ(encode(embedded(), word), entry.at("ids").get<Ids>()) << entry.at("word").dump();
  }
}

TEST(Tokenizer, EqualsHuggingFaceOnAllReceipts) {
  const std::filesystem::path shared = shared_dir() / "data";
  if (!std::filesystem::exists(shared / "sroie") || !std::filesystem::exists(shared / "layoutlmv3-base")) {
    GTEST_SKIP() << "no receipts or LayoutLMv3 tokenizer below " << shared;
  }
  const Tokenizer tokenizer = Tokenizer::from_directory(shared / "layoutlmv3-base");
  EXPECT_EQ(tokenizer.vocab_size(), 50265);
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a over the ids, with -1 after each word
  const auto mix = [&](std::int32_t id) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 0xFF)) * 0x100000001B3;
    }
  };
  std::size_t words = 0, count = 0;
  for (const char* name : {"train.jsonl", "validation.jsonl"}) {
    std::ifstream lines(shared / "sroie" / name);
    for (std::string line; std::getline(lines, line);) {
      const json page = json::parse(line);
      for (const json& word : page.at("words")) {
        const Ids ids = encode(tokenizer, word.get<std::string>());
        for (const std::int32_t id : ids) mix(id);
        mix(-1);
        ++words;
        count += ids.size();
      }
    }
  }
  const json receipts = golden().at("receipts");
  EXPECT_EQ(words, receipts.at("words").get<std::size_t>());
  EXPECT_EQ(count, receipts.at("ids").get<std::size_t>());
  EXPECT_EQ(hash, std::stoull(receipts.at("fnv1a").get<std::string>(), nullptr, 16));
}

TEST(Tokenizer, NumbersSpecialTokensAsRobertaDoes) {
  const SpecialTokens& special = embedded().special();
  EXPECT_EQ(special.bos, 0);
  EXPECT_EQ(special.pad, 1);
  EXPECT_EQ(special.eos, 2);
  EXPECT_EQ(special.unk, 3);
  EXPECT_EQ(special.mask, embedded().vocab_size() - 1);
  EXPECT_EQ(embedded().vocab_size(), 8000);
  EXPECT_EQ(embedded().id_to_token(special.mask), "<mask>");
}

TEST(Tokenizer, FindsAddedTokensInsideAWord) {
  const auto id = [](const char* word) { return encode(embedded(), word); };
  const Ids x = id("x"), y = id("y"), space = id(" ");
  ASSERT_EQ(space.size(), 1U);
  EXPECT_EQ(id("</s>"), Ids{2});
  EXPECT_EQ(id("x</s>y"), (Ids{x[0], 2, y[0]}));  // the text after a token gets its own space in front
  EXPECT_EQ(id(" <s> "), (Ids{space[0], 0, space[0]}));
  const std::int32_t mask = embedded().special().mask;
  EXPECT_EQ(id("x \u3000\t<mask> y"), (Ids{x[0], mask, y[0]}));  // <mask> swallows white space before it, not after it
  EXPECT_EQ(id("<mask> <mask>"), (Ids{mask, mask}));
  EXPECT_EQ(id("<<s>>").size(), 3U);
  EXPECT_THAT(id("<MASK>"), testing::Not(testing::Contains(mask)));
}

TEST(Tokenizer, AddsASpaceUnlessOneIsThere) {
  EXPECT_EQ(encode(embedded(), " TOTAL"), encode(embedded(), "TOTAL"));
  EXPECT_NE(encode(embedded(), "  TOTAL"), encode(embedded(), "TOTAL"));
  EXPECT_EQ(embedded().decode(encode(embedded(), "\tTOTAL")), " \tTOTAL");
  EXPECT_EQ(encode(embedded(), ""), Ids{});
  EXPECT_EQ(embedded().decode(encode(embedded(), "   ")), "   ");
}

TEST(Tokenizer, GivesBackEveryTextItEncoded) {
  std::uint32_t counter = 0;
  const auto draw = [&](std::uint32_t limit) { return philox4x32({counter++, 0, 0, 0}, {3, 4})[0] % limit; };
  for (int sample = 0; sample < 3000; ++sample) {
    std::string word = "x";
    for (std::uint32_t left = draw(sample % 100 == 0 ? 3000 : 20); left > 0; --left) {
      const std::uint32_t kind = draw(4);
      if (kind < 2) word += static_cast<char>(draw(0x80));
      if (kind == 2) word.append({static_cast<char>(0xC2 + draw(30)), static_cast<char>(0x80 + draw(64))});
      if (kind == 3) {
        word.append({static_cast<char>(0xF1 + draw(3)), static_cast<char>(0x80 + draw(64)),
                     static_cast<char>(0x80 + draw(64)), static_cast<char>(0x80 + draw(64))});
      }
    }
    ASSERT_EQ(embedded().decode(encode(embedded(), word)), " " + word);
  }
  // Invalid UTF-8 cannot be encoded, but every byte has a token, and every token its bytes.
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(embedded().decode(Ids{4 + byte}), std::string(1, static_cast<char>(byte)));
  }
}

TEST(Tokenizer, LeavesSpecialTokensOutOfTextUnlessAsked) {
  Ids ids = {0};
  embedded().encode_word("TOTAL", ids);
  ids.push_back(2);
  EXPECT_EQ(embedded().decode(ids), " TOTAL");
  EXPECT_EQ(embedded().decode(ids, true), "<s> TOTAL</s>");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8NamingTheByte) {
  Ids ids;
  try {
    embedded().encode_word("TO\xFFTAL", ids);
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_THAT(error.problem().where, testing::HasSubstr("byte 2"));
    EXPECT_EQ(error.problem().found, "0xFF");
  }
  EXPECT_EQ(ids, Ids{});
  EXPECT_THROW(embedded().encode_question("a \xED\xA0\x80", ids), DataError);
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  EXPECT_THROW(embedded().id_to_token(-1), DataError);
  EXPECT_THROW(embedded().id_to_token(8000), DataError);
  // A model's table may have more rows than there are tokens.
  EXPECT_EQ(embedded().decode(Ids{5, 8000}), embedded().decode(Ids{5}));
  EXPECT_THROW(embedded().decode(Ids{5, -1}), DataError);
}

TEST(Tokenizer, TakesAQuestionWordByWord) {
  Ids expected, ids;
  for (const char* word : {"What", "is", "the", "total?"}) embedded().encode_word(word, expected);
  embedded().encode_question("  What is\tthe\u3000\x1Ctotal?\n", ids);
  EXPECT_EQ(ids, expected);
  ids.clear();
  embedded().encode_question(" ", ids);
  EXPECT_EQ(ids, Ids{});
}

TEST(Tokenizer, EncodesTheSameFromManyThreads) {
  const json file = golden();
  std::vector<std::string> words;
  for (const json& entry : file.at("words")) words.push_back(entry.at("word"));
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) {
    threads.emplace_back([&] {
      for (const std::string& word : words) embedded().encode_word(word, result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Ids expected;
  for (const std::string& word : words) embedded().encode_word(word, expected);
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace plimsoll
