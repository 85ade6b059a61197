#include "data/tokenizer_unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "data/tokenizer.h"
#include "data/tokenizer_split.h"
#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;
using testing::HasSubstr;

Ids encode(const Tokenizer& tokenizer, std::string_view word) {
  Ids ids;
  tokenizer.encode_word(word, ids);
  return ids;
}

// The best path in the plainest words: every token from every place, then unknown characters side by side are joined.
Ids encode_slowly(const std::vector<std::string>& tokens, const UnigramOptions& options, const std::string& piece) {
  std::map<std::string, std::size_t> id_of;
  for (std::size_t id = 0; id < tokens.size(); ++id) id_of[tokens[id]] = id;
  const double unknown = *std::ranges::min_element(options.scores) - 10.0;
  struct Way {
    double score;
    std::size_t begin, id;
  };
  std::map<std::size_t, Way> best;  // to each place
  best[0] = {0.0, 0, 0};
  const auto unknown_id = static_cast<std::size_t>(options.unknown);
  for (std::size_t begin = 0; begin < piece.size(); begin += decode_utf8(piece, begin).length) {
    const auto reach = [&](std::size_t end, std::size_t id, double score) {
      score += best.at(begin).score;
      if (!best.contains(end) || score > best.at(end).score) best[end] = {score, begin, id};
    };
    const std::size_t next = begin + decode_utf8(piece, begin).length;
    for (std::size_t end = begin + 1; end <= piece.size(); ++end) {
      const auto token = id_of.find(piece.substr(begin, end - begin));
      if (token != id_of.end()) reach(end, token->second, options.scores[token->second]);
    }
    if (!id_of.contains(piece.substr(begin, next - begin))) reach(next, unknown_id, unknown);
  }
  Ids ids;
  for (std::size_t end = piece.size(); end > 0;) {
    std::size_t begin = best.at(end).begin, id = best.at(end).id;
    while (id == unknown_id && begin > 0 && best.at(begin).id == unknown_id) begin = best.at(begin).begin;
    if (id == unknown_id && id_of.contains(piece.substr(begin, end - begin))) {
      id = id_of.at(piece.substr(begin, end - begin));
    }
    ids.push_back(static_cast<std::int32_t>(id));
    end = begin;
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

TEST(Unigram, EqualsTheSlowDefinition) {
  std::uint32_t counter = 0;
  const auto draw = [&](std::uint32_t limit) { return philox4x32({counter++, 0, 0, 0}, {8, 9})[0] % limit; };
  const std::vector<std::string> letters = {"a", "b", "c", "d", "\u00E9", "\u2581", "\u4E2D", "x", "y"};
  for (int vocabulary = 0; vocabulary < 12; ++vocabulary) {
    std::vector<std::string> tokens = {"<unk>"};
    UnigramOptions options{.scores = {0.0}, .unknown = 0, .split = vocabulary % 2 == 0};
    for (int i = 0; i < 60; ++i) {
      std::string token;
      for (std::uint32_t left = 1 + draw(4); left > 0; --left) token += letters[draw(7)];
      if (std::ranges::find(tokens, token) != tokens.end()) continue;
      tokens.push_back(token);
      options.scores.push_back(-static_cast<double>(draw(6)));  // few different scores: many ways are equally good
    }
    const Unigram model(tokens, options);
    for (int sample = 0; sample < 300; ++sample) {
      std::string word = letters[draw(4)];
      for (std::uint32_t left = draw(sample % 50 == 0 ? 200 : 12); left > 0; --left) {
        const std::uint32_t letter = draw(sample % 2 == 0 ? 4 : 9);
        word += letters[letter == 5 ? 0 : letter];  // separators come from the model
      }
      Ids ids, whole;
      model.encode_text(word, ids);
      ASSERT_EQ(ids, encode_slowly(tokens, options, "\u2581" + word)) << word;
      model.encode_normalized(word, whole);
      ASSERT_EQ(ids, whole) << word;
    }
  }
}

TEST(Unigram, JoinsUnknownCharactersAndLooksThemUpAgain) {
  const std::vector<std::string> tokens = {"<unk>", "\u2581", "a", "xy"};
  const auto ids_of = [&](std::vector<double> scores, std::string_view text) {
    Ids ids;
    Unigram(tokens, {.scores = std::move(scores), .unknown = 0}).encode_text(text, ids);
    return ids;
  };
  EXPECT_EQ(ids_of({0.0, -1.0, -2.0, -3.0}, "a\u4E2D\u4E2Dxya"), (Ids{1, 2, 0, 3, 2}));
  // With scores above 0, two unknown characters (90 each) are better than a token of both (100).
  const std::vector<double> large = {200.0, 100.0, 100.0, 100.0};
  EXPECT_EQ(ids_of(large, "axxya"), (Ids{1, 2, 0, 2}));
  EXPECT_EQ(ids_of(large, "axya"), (Ids{1, 2, 3, 2})) << "their joined text is a token after all";
}

TEST(Unigram, CutsBeforeEachSeparator) {
  const std::vector<std::string> tokens = {"<unk>", "\u2581", "a", "\u2581a", "\u2581\u2581", "a\u2581"};
  const std::vector<double> scores = {0.0, -1.0, -1.0, -1.0, -0.1, -0.1};
  const auto ids_of = [&](UnigramOptions options, std::string_view text) {
    options.scores = scores;
    options.unknown = 0;
    Ids ids;
    Unigram(tokens, options).encode_text(text, ids);
    return ids;
  };
  EXPECT_EQ(ids_of({}, " a  a "), (Ids{3, 3}));
  EXPECT_EQ(ids_of({.split_white_space = false}, " a  a "), (Ids{3, 1, 3, 1}));
  EXPECT_EQ(ids_of({.split_white_space = false, .split = false}, "a  a "), (Ids{3, 4, 5}));
  EXPECT_EQ(ids_of({.prepend = false}, "a"), Ids{2});
  EXPECT_EQ(ids_of({}, ""), Ids{});
  EXPECT_EQ(ids_of({}, " "), Ids{});
}

TEST(Unigram, NormalisesInSteps) {
  using Kind = NormalizerStep::Kind;
  const auto normalized = [](std::vector<NormalizerStep> steps, std::string_view text) {
    return Unigram({"<unk>"}, {.scores = {0.0}, .unknown = 0, .normalization = std::move(steps)}).normalize(text);
  };
  EXPECT_EQ(normalized({{.kind = Kind::kStrip, .right = true}}, " a \u3000"), " a");
  EXPECT_EQ(normalized({{.kind = Kind::kStrip, .left = true, .right = true}}, "\t \t"), "");
  EXPECT_EQ(normalized({{.kind = Kind::kReplaceSpaces, .text = "_"}}, " a   b  "), " a_b_");
  EXPECT_EQ(normalized({{.kind = Kind::kReplace, .text = "\"", .pattern = "``"}}, "```"), "\"`");
}

TEST(Unigram, DecodesSeparatorsAsSpaces) {
  const Tokenizer tokenizer = Tokenizer::from_directory(test_data_dir() / "tokenizers/xlm-roberta");
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "TOTAL")), " TOTAL");
  EXPECT_EQ(tokenizer.special().bos, 0);
  EXPECT_EQ(tokenizer.special().pad, 1);
  EXPECT_EQ(tokenizer.special().eos, 2);
  EXPECT_EQ(tokenizer.special().unk, 3);
  EXPECT_EQ(tokenizer.special().mask, tokenizer.vocab_size() - 1);
}

TEST(Unigram, ModelFilesAreSavedWithAConfigurationThatNamesTheClass) {
  const std::filesystem::path folder = test_data_dir() / "tokenizers/xlm-roberta";
  const test::ScratchFolder saved;
  const Tokenizer tokenizer = Tokenizer::from_directory(folder);
  tokenizer.save(saved.path());
  EXPECT_EQ(read_text_file(saved / "sentencepiece.bpe.model"), read_text_file(folder / "sentencepiece.bpe.model"));
  EXPECT_EQ(json::parse(read_text_file(saved / "tokenizer_config.json")).at("tokenizer_class"), "XLMRobertaTokenizer");
  EXPECT_EQ(encode(Tokenizer::from_directory(saved.path()), "Total \uFF34"), encode(tokenizer, "Total \uFF34"));
}

class UnigramFiles : public testing::Test {
 protected:
  static json file() {
    json vocabulary = json::array();
    for (const char* token : {"<s>", "<pad>", "</s>", "<unk>"}) vocabulary.push_back(json::array({token, 0}));
    vocabulary.push_back(json::array({"\u2581", -2.0}));
    vocabulary.push_back(json::array({"a", -2.5}));
    vocabulary.push_back(json::array({"\u2581a", -3.0}));
    vocabulary.push_back(json::array({"<mask>", 0}));
    return {{"added_tokens", json::array()},
            {"normalizer", nullptr},
            {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}}},
            {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"byte_fallback", false}, {"vocab", vocabulary}}}};
  }
  Tokenizer read(const json& tokenizer, const json& config = json::object()) {
    folder_.write("tokenizer.json", tokenizer.dump());
    folder_.write("tokenizer_config.json", config.dump());
    return Tokenizer::from_directory(folder_.path());
  }
  std::string found(const char* pointer, const json& value, const json& config = json::object()) {
    json tokenizer = file();
    tokenizer[json::json_pointer(pointer)] = value;
    try {
      read(tokenizer, config);
    } catch (const DataError& error) {
      return error.problem().found;
    }
    return "not refused";
  }
  test::ScratchFolder folder_;
};

TEST_F(UnigramFiles, TheClassDecides) {
  const json as_written = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  EXPECT_EQ(encode(read(file()), " a a"), (Ids{6, 6})) << "XLMRobertaTokenizer cuts at white space";
  EXPECT_EQ(encode(read(file()), "a <mask>"), (Ids{6, 7}));
  EXPECT_EQ(encode(read(file(), {{"add_prefix_space", false}}), "aa"), (Ids{5, 5}));
  const json layout = {{"tokenizer_class", "LayoutXLMTokenizerFast"}};
  EXPECT_EQ(encode(read(file(), layout), "a a  "), (Ids{6, 6}));
  EXPECT_EQ(encode(read(file(), layout), "\ta"), (Ids{4, 3, 5}));
  EXPECT_EQ(encode(read(file(), layout), "a \t<mask>"), (Ids{6, 7})) << "its <mask> swallows white space";
  json other = file();
  other["model"]["unk_id"] = 0;
  EXPECT_EQ(encode(read(other), "z"), (Ids{4, 3}));
  EXPECT_EQ(encode(read(other, as_written), "z"), (Ids{4, 0}));
  folder_.write("config.json", R"({"model_type": "layoutlmv3"})");
  EXPECT_EQ(encode(read(file()), "\ta"), (Ids{4, 3, 5}));
}

TEST_F(UnigramFiles, ReadsOldFiles) {
  json old = file();
  old["model"].erase("type");
  old["pre_tokenizer"] = {{"type", "Sequence"},
                          {"pretokenizers",
                           {{{"type", "WhitespaceSplit"}},
                            {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", true}}}}};
  EXPECT_EQ(encode(read(old, {{"tokenizer_class", "TokenizersBackend"}}), " a a"), (Ids{6, 6}));
}

TEST_F(UnigramFiles, AddedTokensAreNoPartOfTheModel) {
  json tokenizer = file();
  tokenizer["added_tokens"] = {{{"id", 8}, {"content", "aa"}, {"normalized", false}}};
  tokenizer["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "-"}}}, {"content", "a"}};
  const Tokenizer one = read(tokenizer, {{"tokenizer_class", "TokenizersBackend"}});
  EXPECT_EQ(encode(one, "aa"), Ids{8});
  EXPECT_EQ(encode(one, "--"), (Ids{6, 5})) << "the normalised text is not looked through for it";
}

TEST_F(UnigramFiles, RefusesWhatItDoesNotComputeByName) {
  EXPECT_THAT(found("/normalizer", {{"type", "NFKC"}}), HasSubstr("NFKC"));
  EXPECT_THAT(found("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}), HasSubstr("charsmap"));
  EXPECT_THAT(found("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}), HasSubstr("3 bytes"));
  EXPECT_THAT(found("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}}),
              HasSubstr("a+"));
  EXPECT_THAT(found("/pre_tokenizer", {{"type", "Whitespace"}}), HasSubstr("Whitespace"));
  EXPECT_EQ(found("/pre_tokenizer", nullptr), "no pre_tokenizer");
  EXPECT_THAT(found("/pre_tokenizer/prepend_scheme", "first"), HasSubstr("first"));
  EXPECT_EQ(found("/model/byte_fallback", true), "\"byte_fallback\": true");
  EXPECT_THAT(found("/model/vocab", json::object()), HasSubstr("{}"));
  EXPECT_THAT(found("/model/vocab/3", json::array({"<unk>"})), HasSubstr("<unk>"));
  const json as_written = {{"tokenizer_class", "TokenizersBackend"}};
  EXPECT_EQ(found("/model/unk_id", nullptr, as_written), "unk_id -1");
  EXPECT_EQ(found("/model/unk_id", 8, as_written), "unk_id 8");
  EXPECT_THAT(found("/version", 1, {{"tokenizer_class", "CamembertTokenizer"}}), HasSubstr("CamembertTokenizer"));
}

TEST_F(UnigramFiles, RefusesATornModelFile) {
  const std::string whole = read_text_file(test_data_dir() / "tokenizers/xlm-roberta/sentencepiece.bpe.model");
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, whole.size() - 1}) {
    folder_.write("sentencepiece.bpe.model", whole.substr(0, length));
    EXPECT_THROW(Tokenizer::from_directory(folder_.path()), DataError) << length;
  }
}

}  // namespace
}  // namespace plimsoll
