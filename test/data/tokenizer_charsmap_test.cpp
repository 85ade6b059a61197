#include "data/tokenizer_charsmap.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/tokenizer_graphemes.h"
#include "data/tokenizer_sentencepiece.h"
#include "formats/base64.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

using nlohmann::json;

CharsMap nmt_nfkc() {
  const auto path = test_data_dir() / "tokenizers/xlm-roberta/sentencepiece.bpe.model";
  return *CharsMap::parse(read_sentence_pieces(read_text_file(path), path.string()).charsmap);
}

// The small map of tools/make_test_vocabularies.py.
CharsMap small_map() {
  const json file = json::parse(read_text_file(test_data_dir() / "tokenizers/unigram.json"));
  return *CharsMap::parse(
      *decode_base64(file.at("/normalizer/normalizers/0/precompiled_charsmap"_json_pointer).get<std::string>()));
}

TEST(CharsMap, NormalisesAsNmtNfkc) {
  const CharsMap map = nmt_nfkc();
  EXPECT_EQ(map.normalize("TOTAL 12.50"), "TOTAL 12.50");
  EXPECT_EQ(map.normalize("\uFF34\u2122\uFB01"), "TTMfi");
  EXPECT_EQ(map.normalize("a\tb\u00A0c\u200Bd\u0001e"), "a b c de");
  EXPECT_EQ(map.normalize("e\u0301"), "\u00E9");
  EXPECT_EQ(map.normalize("\uFF76\uFF9E"), "\u30AB\u3099") << "six bytes: character by character";
  EXPECT_EQ(map.normalize(""), "");
}

TEST(CharsMap, ReplacesAWholeShortClusterByTheShortestKey) {
  const CharsMap map = small_map();
  EXPECT_EQ(map.find("AB"), "a") << "A is a key, and so is AB";
  EXPECT_EQ(map.normalize("AB"), "aB") << "two clusters";
  EXPECT_EQ(map.normalize("\u2122\u0301"), "TM") << "five bytes: the accent is lost";
  EXPECT_EQ(map.normalize("\u2122\u0301\u0301"), "TM\u0301\u0301") << "seven bytes: character by character";
  EXPECT_EQ(map.normalize("e\u0301"), "E");
  EXPECT_EQ(map.normalize("x\u200By"), "xy");
  EXPECT_EQ(map.normalize("\r\n"), " ") << "one cluster";
  EXPECT_EQ(map.find(std::string_view("\0", 1)), std::nullopt);
}

TEST(CharsMap, RefusesOrPassesOverDamagedBytes) {
  EXPECT_FALSE(CharsMap::parse(""));
  EXPECT_FALSE(CharsMap::parse(std::string_view("\0\0\0\0", 4)));
  EXPECT_FALSE(CharsMap::parse(std::string_view("\x08\0\0\0abcd", 8)));
  EXPECT_FALSE(CharsMap::parse(std::string_view("\x04\0\0\0abcd\xFF", 9))) << "texts that are not UTF-8";
  std::string bytes =
      read_sentence_pieces(read_text_file(test_data_dir() / "tokenizers/xlm-roberta/sentencepiece.bpe.model"), "model")
          .charsmap;
  for (std::size_t i = 5; i < 6000; i += 7) bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
  const auto map = CharsMap::parse(bytes);
  ASSERT_TRUE(map);
  for (const char* text : {"\uFF34\u2122\uFB01", "abc def", "\U0001F468\u200D\U0001F469"}) map->normalize(text);
}

std::vector<std::string> clusters(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = grapheme_end(text, begin);
    found.emplace_back(text.substr(begin, end - begin));
  }
  return found;
}

TEST(Graphemes, EndWhereTheStandardEndsThem) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(clusters("ab\r\n\n"), (Texts{"a", "b", "\r\n", "\n"}));
  EXPECT_EQ(clusters("e\u0301\u0316x"), (Texts{"e\u0301\u0316", "x"}));
  EXPECT_EQ(clusters("\n\u0301"), (Texts{"\n", "\u0301"})) << "nothing joins a control character";
  EXPECT_EQ(clusters("\u0600a"), Texts{"\u0600a"});
  EXPECT_EQ(clusters("\u1100\u1161\u11A8\uAC00\u11A8\uAC01\u11A8\u1161"),
            (Texts{"\u1100\u1161\u11A8", "\uAC00\u11A8", "\uAC01\u11A8", "\u1161"}));
  EXPECT_EQ(clusters("\u0915\u094D\u0937\u0915"), (Texts{"\u0915\u094D\u0937", "\u0915"}));
  EXPECT_EQ(clusters("\U0001F468\u200D\U0001F469\u200Da"), (Texts{"\U0001F468\u200D\U0001F469\u200D", "a"}));
  EXPECT_EQ(clusters("a\u200D\u2122"), (Texts{"a\u200D", "\u2122"}));
}

}  // namespace
}  // namespace plimsoll
