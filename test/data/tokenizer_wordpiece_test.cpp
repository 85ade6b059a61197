#include "data/tokenizer_wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "data/tokenizer.h"
#include "data/tokenizer_unicode.h"
#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kTokens = {"[PAD]", "[UNK]", "[CLS]",  "[SEP]", "[MASK]", "total", "to", "##tal",
                                          "##ta",  "-",     "\u4E2D", "cafe",  "##s",    "1",     "##2"};
constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntotal\nto\n##tal\n##ta\n-\n\u4E2D\ncafe\n##s\n1\n##2\n";

Ids encode(const Tokenizer& tokenizer, std::string_view word) {
  Ids ids;
  tokenizer.encode_word(word, ids);
  return ids;
}

// The definition in the plainest words: the longest token first, a look-up each.
Ids encode_slowly(const std::vector<std::string>& tokens, const WordPieceOptions& options, std::string_view word) {
  std::map<std::string, std::int32_t> id_of;
  for (std::size_t id = 0; id < tokens.size(); ++id) id_of[tokens[id]] = static_cast<std::int32_t>(id);
  const UnicodeTables& tables = UnicodeTables::instance();
  std::u32string text, piece;
  append_utf32(normalize_bert(word, options.normalization), text);
  Ids ids;
  const auto end_piece = [&] {
    Ids found;
    std::size_t begin = 0;
    bool covered = piece.size() <= options.max_word_chars;
    while (covered && begin < piece.size()) {
      covered = false;
      for (std::size_t end = piece.size(); end > begin && !covered; --end) {
        std::string part = begin > 0 ? options.continuing_prefix : "";
        for (std::size_t i = begin; i < end; ++i) append_utf8(piece[i], part);
        const auto entry = id_of.find(part);
        if (entry == id_of.end()) continue;
        found.push_back(entry->second);
        begin = end;
        covered = true;
      }
    }
    if (!covered) found = {options.unknown};
    if (!piece.empty()) ids.insert(ids.end(), found.begin(), found.end());
    piece.clear();
  };
  for (const char32_t code_point : text) {
    const std::uint8_t flags = tables.flags(code_point);
    if ((flags & (kWhiteSpace | kPunctuation)) != 0) end_piece();
    if ((flags & kWhiteSpace) == 0) piece += code_point;
    if ((flags & kPunctuation) != 0) end_piece();
  }
  end_piece();
  return ids;
}

TEST(WordPiece, EqualsTheSlowDefinition) {
  std::vector<std::string> tokens = {"[UNK]"};
  for (char letter = '!'; letter <= 'h'; ++letter) {  // some letters are unknown, and some only begin a piece
    tokens.emplace_back(1, letter);
    if (letter % 3 != 0) tokens.push_back(std::string("##") + letter);
  }
  for (const char* token :
       {"ab", "abc", "##bc", "##bcd", "abcdefgh", "##\u00E9", "\u00E9a", "##a\u00E9a", "aaaaaaaaaaaaaaa"}) {
    tokens.emplace_back(token);
  }
  std::uint32_t counter = 0;
  const auto draw = [&](std::uint32_t limit) { return philox4x32({counter++, 0, 0, 0}, {5, 6})[0] % limit; };
  for (const std::size_t longest : {std::size_t{3}, std::size_t{100}}) {
    for (int set = 0; set < 16; ++set) {
      const WordPieceOptions options{.unknown = 0,
                                     .max_word_chars = longest,
                                     .normalization = {.clean_text = (set & 1) != 0,
                                                       .handle_chinese_chars = (set & 2) != 0,
                                                       .strip_accents = (set & 4) != 0,
                                                       .lowercase = (set & 8) != 0}};
      const WordPiece model(tokens, options);
      for (int sample = 0; sample < 300; ++sample) {
        std::string word;
        for (std::uint32_t left = draw(sample % 50 == 0 ? 300 : 12); left > 0; --left) {
          const std::uint32_t kind = draw(20);
          if (kind == 0 && sample % 2 == 0) word += "\u00E9";
          if (kind == 1 && sample % 2 == 0) word += "\u4E2D";
          if (kind == 2) word += static_cast<char>(draw(0x80));
          if (kind > 2) word += static_cast<char>('a' + draw(6));
        }
        Ids ids;
        model.encode_text(word, ids);
        ASSERT_EQ(ids, encode_slowly(tokens, options, word)) << json(word).dump();
      }
    }
  }
}

TEST(UnicodeTables, DecomposeHangulAndSortMarks) {
  const UnicodeTables& tables = UnicodeTables::instance();
  EXPECT_EQ(tables.decompose(U"\uAC01\uAC00"), U"\u1100\u1161\u11A8\u1100\u1161");
  EXPECT_EQ(tables.decompose(U"a\u0345\u0301\u0316b"), U"a\u0316\u0301\u0345b");
  EXPECT_EQ(tables.decompose(U"\u1E69"), U"s\u0323\u0307");
  EXPECT_EQ(tables.decompose(U"\U0002F800"), U"\u4E3D");
  std::u32string lower;
  for (const char32_t code_point : std::u32string(U"\u0130\u03A3\u1E9E\U00010400z")) {
    tables.append_lower(code_point, lower);
  }
  EXPECT_EQ(lower, U"i\u0307\u03C3\u00DF\U00010428z");
}

TEST(BertNormalization, DoesOnlyWhatIsAskedFor) {
  const BertNormalization none{false, false, false, false};
  EXPECT_EQ(normalize_bert("Caf\u00C9\t\u4E2D", none), "Caf\u00C9\t\u4E2D");
  EXPECT_EQ(normalize_bert("Caf\u00C9\t\u4E2D", {}), "cafe  \u4E2D ");
  EXPECT_EQ(normalize_bert("a\u200Bb\tc", {true, false, false, false}), "ab c");
  EXPECT_EQ(normalize_bert("\u4E2D", {false, true, false, false}), " \u4E2D ");
  EXPECT_EQ(normalize_bert("\u00C9", {false, false, true, false}), "E");
  EXPECT_EQ(normalize_bert("\u00C9", {false, false, false, true}), "\u00E9");
}

class VocabTxt : public testing::Test {
 protected:
  Tokenizer read(std::string_view vocabulary, const json& config = nullptr) {
    folder_.write("vocab.txt", vocabulary);
    if (!config.is_null()) folder_.write("tokenizer_config.json", config.dump());
    return Tokenizer::from_directory(folder_.path());
  }
  Problem refusal(std::string_view vocabulary, const json& config = nullptr) {
    try {
      read(vocabulary, config);
    } catch (const DataError& error) {
      return error.problem();
    }
    ADD_FAILURE() << "not refused";
    return {};
  }
  test::ScratchFolder folder_;
};

TEST_F(VocabTxt, ReadsAsBertTokenizer) {
  const Tokenizer tokenizer = read(kVocabulary);
  EXPECT_EQ(tokenizer.vocab_size(), static_cast<std::int32_t>(kTokens.size()));
  EXPECT_EQ(tokenizer.special().pad, 0);
  EXPECT_EQ(tokenizer.special().unk, 1);
  EXPECT_EQ(tokenizer.special().bos, 2);
  EXPECT_EQ(tokenizer.special().eos, 3);
  EXPECT_EQ(tokenizer.special().mask, 4);
  EXPECT_EQ(encode(tokenizer, "TOTAL-Tota"), (Ids{5, 9, 6, 8}));
  EXPECT_EQ(encode(tokenizer, "Caf\u00C9s\u4E2D12"), (Ids{11, 12, 10, 13, 14}));
  EXPECT_EQ(encode(tokenizer, "x[SEP]to"), (Ids{1, 3, 6}));
  EXPECT_EQ(encode(tokenizer, " \t"), Ids{});
}

TEST_F(VocabTxt, ConfigurationDecidesAboutNormalisation) {
  EXPECT_EQ(encode(read(kVocabulary, {{"do_lower_case", false}}), "TOTAL caf\u00E9"), (Ids{1, 1}));
  EXPECT_EQ(encode(read(kVocabulary, {{"do_lower_case", false}, {"strip_accents", true}}), "caf\u00E9"), Ids{11});
  EXPECT_EQ(encode(read(kVocabulary, {{"strip_accents", false}}), "TOTAL caf\u00E9"), (Ids{5, 1}));
  EXPECT_EQ(encode(read(kVocabulary, {{"tokenize_chinese_chars", false}}), "\u4E2D\u4E2D"), Ids{1});
  EXPECT_EQ(encode(read(kVocabulary, {{"unk_token", "[PAD]"}}), "x"), Ids{0});
}

TEST_F(VocabTxt, TrimsLinesAndGivesTheLastOfEqualLinesItsToken) {
  const Tokenizer tokenizer = read("[UNK]\r\na \nb\u3000\n\na\n[PAD]\n[CLS]\n[SEP]");
  EXPECT_EQ(encode(tokenizer, "a b c"), (Ids{4, 2, 0}));
  EXPECT_EQ(tokenizer.id_to_token(1), "");
  EXPECT_EQ(tokenizer.special().eos, 7);
}

TEST_F(VocabTxt, JoinsPiecesWhenItDecodes) {
  const Tokenizer tokenizer = read(kVocabulary);
  EXPECT_EQ(tokenizer.decode(Ids{2, 6, 7, 9, 5, 3}), " total - total");
  EXPECT_EQ(tokenizer.decode(Ids{2, 5}, true), "[CLS] total");
}

TEST_F(VocabTxt, IsSavedWithAConfigurationThatNamesTheClass) {
  const Tokenizer tokenizer = read(kVocabulary);
  const test::ScratchFolder saved;
  tokenizer.save(saved.path());
  const Tokenizer again = Tokenizer::from_directory(saved.path());
  EXPECT_EQ(encode(again, "TOTAL caf\u00E9"), encode(tokenizer, "TOTAL caf\u00E9"));
  EXPECT_EQ(again.special().mask, 4);
}

TEST_F(VocabTxt, RefusesWhatIsNoBertVocabulary) {
  EXPECT_THAT(refusal("[UNK]\na\n").found, HasSubstr("cls_token"));
  EXPECT_THAT(refusal("[CLS]\n[SEP]\n[PAD]\n").what, HasSubstr("unknown words"));
  EXPECT_THAT(refusal("[CLS]\n\xFF\n").found, HasSubstr("0xFF at byte 6"));
  EXPECT_THAT(refusal("").what, HasSubstr("special token"));
  const Problem problem = refusal(kVocabulary, {{"tokenizer_class", "BertJapaneseTokenizer"}});
  EXPECT_THAT(problem.found, HasSubstr("BertJapaneseTokenizer"));
  EXPECT_THAT(problem.where, HasSubstr("tokenizer_config.json"));
}

class WordPieceJson : public testing::Test {
 protected:
  static json file() {
    json vocabulary = json::object();
    for (std::size_t id = 0; id < kTokens.size(); ++id) vocabulary[kTokens[id]] = id;
    return {{"added_tokens", json::array()},
            {"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", true},
              {"handle_chinese_chars", true},
              {"strip_accents", nullptr},
              {"lowercase", false}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", "[UNK]"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100},
              {"vocab", vocabulary}}}};
  }
  Tokenizer read(const json& tokenizer, const json& config) {
    folder_.write("tokenizer.json", tokenizer.dump());
    folder_.write("tokenizer_config.json", config.dump());
    return Tokenizer::from_directory(folder_.path());
  }
  test::ScratchFolder folder_;
};

TEST_F(WordPieceJson, TheClassDecidesWhetherTheFileIsObeyed) {
  const Ids lowered = {5}, unknown = {1};
  EXPECT_EQ(encode(read(file(), json::object()), "TOTAL"), lowered) << "BertTokenizer lowers case by default";
  EXPECT_EQ(encode(read(file(), {{"do_lower_case", false}}), "TOTAL"), unknown);
  for (const char* name : {"PreTrainedTokenizerFast", "TokenizersBackend"}) {
    EXPECT_EQ(encode(read(file(), {{"tokenizer_class", name}}), "TOTAL"), unknown) << name;
  }
  folder_.write("config.json", R"({"tokenizer_class": "TokenizersBackend"})");
  EXPECT_EQ(encode(read(file(), json::object()), "TOTAL"), unknown);
}

TEST_F(WordPieceJson, AClassThatIsNotSetIsLookedForInTheModelsConfiguration) {
  folder_.write("config.json", R"({"tokenizer_class": null, "model_type": "bert"})");
  EXPECT_EQ(encode(read(file(), {{"tokenizer_class", nullptr}}), "total"), Ids{5});
  folder_.write("config.json", "{");
  EXPECT_THROW(read(file(), json::object()), DataError);
  EXPECT_EQ(encode(read(file(), {{"tokenizer_class", "BertTokenizerFast"}}), "total"), Ids{5});
}

TEST_F(WordPieceJson, ReadsOldFilesWithoutAType) {
  json old = file();
  old["model"].erase("type");
  EXPECT_EQ(encode(read(old, json::object()), "total"), Ids{5});
}

TEST_F(WordPieceJson, FindsAddedTokensInNormalisedText) {
  json tokenizer = file();
  tokenizer["normalizer"]["lowercase"] = true;
  const auto add = [&](int id, const char* content, bool normalized) {
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", content}, {"normalized", normalized}});
  };
  add(15, "To\u00C9", true);
  add(16, "Raw", false);
  const Tokenizer read_one = read(tokenizer, {{"tokenizer_class", "TokenizersBackend"}});
  EXPECT_EQ(encode(read_one, "TOE"), Ids{15});
  EXPECT_EQ(encode(read_one, "1toe\u0301TOTAL"), (Ids{13, 15, 5}));
  EXPECT_EQ(encode(read_one, "Rawraw"), (Ids{16, 1}));
  add(17, "\u0301", true);
  EXPECT_THROW(read(tokenizer, {{"tokenizer_class", "TokenizersBackend"}}), DataError);
}

TEST_F(WordPieceJson, RefusesWhatItDoesNotComputeByName) {
  const auto found = [&](const char* pointer, const json& value) {
    json tokenizer = file();
    tokenizer[json::json_pointer(pointer)] = value;
    try {
      read(tokenizer, json::object());
    } catch (const DataError& error) {
      return error.problem().found;
    }
    return std::string("not refused");
  };
  EXPECT_THAT(found("/normalizer", {{"type", "NFKC"}}), HasSubstr("NFKC"));
  EXPECT_EQ(found("/normalizer", nullptr), "no normalizer");
  EXPECT_THAT(found("/pre_tokenizer", {{"type", "Whitespace"}}), HasSubstr("Whitespace"));
  EXPECT_EQ(found("/pre_tokenizer", nullptr), "no pre_tokenizer");
  EXPECT_THAT(found("/model/max_input_chars_per_word", -1), HasSubstr("-1"));
  EXPECT_THAT(found("/model/type", "WordLevel"), HasSubstr("WordLevel"));
}

}  // namespace
}  // namespace plimsoll
