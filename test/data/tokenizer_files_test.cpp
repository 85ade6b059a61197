#include "data/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer.h"
#include "data/tokenizer_vocabulary.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;
using testing::HasSubstr;

// A directory that is deleted when the test ends.
class TokenizerFiles : public testing::Test {
 protected:
  TokenizerFiles() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(testing::TempDir()) / (std::string("plimsoll_tokenizer_") + test->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~TokenizerFiles() override { fs::remove_all(directory_); }

  void write(const std::string& name, const json& content) const {
    write_text_file(directory_ / name, content.is_string() ? content.get<std::string>() : content.dump());
  }
  Ids encode(std::string_view word) const {
    Ids ids;
    Tokenizer::from_directory(directory_).encode_word(word, ids);
    return ids;
  }
  // Returns the problem of a tokenizer.json that must be refused.
  Problem refusal(const json& tokenizer) const {
    write("tokenizer.json", tokenizer);
    return refusal();
  }
  Problem refusal() const {
    try {
      read_tokenizer_files(directory_);
    } catch (const DataError& error) {
      return error.problem();
    }
    ADD_FAILURE() << "not refused";
    return {};
  }

  fs::path directory_;
};

// Has the bytes, and three merges: "Ġa", "bc", "Ġabc".
TokenizerDefinition small() { return vocabulary_from_merges("\u0120 a\nb c\n\u0120a bc\n"); }

json small_json() {
  for (const TokenizerFile& file : tokenizer_files(small())) {
    if (file.name == "tokenizer.json") return json::parse(file.content);
  }
  return {};
}

constexpr std::int32_t kA = 260, kAbc = 262, kMask = 263;  // "Ġa", "Ġabc", "<mask>"
constexpr std::int32_t byte_id(unsigned char byte) { return 4 + byte; }

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(bytes_to_alphabet(" \n!~"), "\u0120\u010A!~");
  EXPECT_EQ(bytes_to_alphabet(std::string_view("\0\x7F\xA0\xA1\xAC\xAD\xAE\xFF", 8)),
            "\u0100\u0121\u0142\u00A1\u00AC\u0143\u00AE\u00FF");
  EXPECT_EQ(alphabet_to_bytes("no alphabet has a plain space"), "no alphabet has a plain space");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(alphabet_to_bytes(bytes_to_alphabet(all)), all);
}

TEST_F(TokenizerFiles, WrittenFilesReadBackAsTheSameTokenizer) {
  const TokenizerDefinition definition = embedded_vocabulary();
  write_tokenizer_files(definition, directory_);
  const TokenizerDefinition again = read_tokenizer_files(directory_);
  EXPECT_EQ(again.tokens, definition.tokens);
  const std::vector<BpeMerge>& merges = std::get<BpeOptions>(definition.model).merges;
  const std::vector<BpeMerge>& read = std::get<BpeOptions>(again.model).merges;
  ASSERT_EQ(read.size(), merges.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].left, merges[i].left);
    EXPECT_EQ(read[i].right, merges[i].right);
    EXPECT_EQ(read[i].result, merges[i].result);
  }
  ASSERT_EQ(again.added.size(), 5U);
  EXPECT_TRUE(again.added.back().lstrip);
  EXPECT_EQ(again.special.mask, definition.special.mask);
  EXPECT_EQ(json::parse(read_text_file(directory_ / "tokenizer_config.json")).at("tokenizer_class"),
            "LayoutLMv3Tokenizer");
}

// transformers would take LayoutLMv3Tokenizer at its word and lose the decoder's own rules.
TEST_F(TokenizerFiles, ADecodersFileAloneGetsTheClassThatKeepsItsRules) {
  write("tokenizer.json", read_text_file(test_data_dir() / "tokenizers" / "llama3.json"));
  const TokenizerDefinition definition = read_tokenizer_files(directory_);
  fs::create_directory(directory_ / "saved");
  write_tokenizer_files(definition, directory_ / "saved");
  const json config = json::parse(read_text_file(directory_ / "saved" / "tokenizer_config.json"));
  EXPECT_EQ(
      config,
      (json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"bos_token", "<|begin|>"}, {"pad_token", "<|begin|>"}}));
  const TokenizerDefinition again = read_tokenizer_files(directory_ / "saved");
  EXPECT_EQ(again.special.bos, definition.special.bos);
  EXPECT_EQ(again.special.end_of_text, definition.special.end_of_text);
  EXPECT_EQ(again.special.pad, definition.special.pad);
}

// Published files of Llama 3 say so. The ids are those of the `tokenizers` library.
TEST_F(TokenizerFiles, APieceThatIsATokenNeedsNoMerges) {
  json file = json::parse(read_text_file(test_data_dir() / "tokenizers" / "llama3.json"));
  std::string spaces;
  for (int i = 0; i < 16; ++i) spaces += "\u0120";
  json& vocabulary = file["model"]["vocab"];
  vocabulary["\u0120zebra"] = 600;
  vocabulary[spaces] = 601;
  vocabulary["total"] = 602;
  const auto encoded = [&](std::string_view text) {
    Ids ids;
    Tokenizer::from_directory(directory_).encode_text(text, ids);
    return ids;
  };
  const std::string wide = std::string(17, ' ') + "x";
  for (const bool ignores : {false, true}) {
    file["model"]["ignore_merges"] = ignores;
    write("tokenizer.json", file);
    EXPECT_EQ(encoded(" zebra total"), ignores ? (Ids{600, 267, 565}) : (Ids{571, 70, 67, 319, 267, 565}));
    EXPECT_EQ(encoded("total zebra"), ignores ? (Ids{602, 600}) : (Ids{85, 565, 571, 70, 67, 319}));
    EXPECT_EQ(encoded("zebra"), (Ids{91, 70, 67, 319}));
    EXPECT_EQ(encoded(wide).size(), ignores ? 3U : 18U);
  }
}

TEST_F(TokenizerFiles, FilesReadAreWrittenBackByteForByte) {
  write("tokenizer.json", small_json().dump(3) + "\n\n");
  write("tokenizer_config.json", R"({"add_prefix_space" : true,  "my_own": 1})");
  write("special_tokens_map.json", "{}");
  const Tokenizer tokenizer = Tokenizer::from_directory(directory_);
  const fs::path target = directory_ / "saved";
  fs::create_directories(target);
  const auto originals = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"};
  std::vector<std::string> contents;
  for (const char* name : originals) contents.push_back(read_text_file(directory_ / name));
  for (const char* name : originals) fs::remove(directory_ / name);  // by the end of a long run they may be deleted
  tokenizer.save(target);
  std::size_t i = 0;
  for (const char* name : originals) EXPECT_EQ(read_text_file(target / name), contents[i++]) << name;
}

TEST_F(TokenizerFiles, OneFileMayBeGivenByItself) {
  write("other.json", small_json());
  write("tokenizer_config.json", "this belongs to something else");
  const TokenizerDefinition definition = read_tokenizer_files(directory_ / "other.json");
  ASSERT_EQ(definition.files.size(), 1U);
  EXPECT_EQ(definition.files[0].name, "tokenizer.json");
  EXPECT_EQ(tokenizer_files(definition).size(), 2U);  // with a tokenizer_config.json of ours
}

TEST_F(TokenizerFiles, MergesMayBeStrings) {
  json file = small_json();
  file["model"]["merges"] = {"\u0120 a", "b c", "\u0120a bc"};
  write("tokenizer.json", file);
  EXPECT_EQ(encode("abc"), Ids{kAbc});
}

TEST_F(TokenizerFiles, VocabularyAndMergesReadWithoutTokenizerJson) {
  write("vocab.json", small_json()["model"]["vocab"]);
  write("merges.txt", "#version: 0.2\n\u0120 a\r\nb c\n\u0120a bc\n");
  EXPECT_EQ(encode("abc"), Ids{kAbc});
  EXPECT_EQ(encode("a<mask>"), (Ids{kA, kMask}));
  // `transformers` gives <mask> no lstrip here unless a configuration says so.
  EXPECT_EQ(encode("a <mask>"), (Ids{kA, byte_id(' '), kMask}));
  write("special_tokens_map.json", {{"mask_token", {{"content", "<mask>"}, {"lstrip", true}}}});
  EXPECT_EQ(encode("a <mask>"), (Ids{kA, kMask}));
  write("tokenizer_config.json", {{"mask_token", "<mask>"}});  // special_tokens_map.json overrides it
  EXPECT_EQ(encode("a <mask>"), (Ids{kA, kMask}));
  write("tokenizer_config.json",
        {{"added_tokens_decoder", {{"263", {{"content", "<mask>"}, {"lstrip", true}, {"rstrip", true}}}}}});
  EXPECT_EQ(encode("a <mask> a"), (Ids{kA, kMask, kA}));
  write("added_tokens.json", {{"[NEW]", 264}});
  EXPECT_EQ(encode("a[NEW]a"), (Ids{kA, 264, kA}));
  EXPECT_EQ(Tokenizer::from_directory(directory_).vocab_size(), 265);
}

TEST_F(TokenizerFiles, ConfigurationDecidesAboutThePrefixSpace) {
  json file = small_json();
  file["pre_tokenizer"]["add_prefix_space"] = false;  // LayoutLMv3Tokenizer ignores it
  write("tokenizer.json", file);
  EXPECT_EQ(encode("a"), Ids{kA});
  write("tokenizer_config.json", {{"tokenizer_class", "LayoutLMv3TokenizerFast"}, {"add_prefix_space", false}});
  EXPECT_EQ(encode("a"), Ids{byte_id('a')});
}

// RobertaTokenizer saves the key as false, and takes no words unless it is true.
TEST_F(TokenizerFiles, WordsOfOtherClassesFollowASpace) {
  const auto encode_text = [this](const std::string& text) {
    Ids ids;
    Tokenizer::from_directory(directory_).encode_whole_text(text, ids);
    return ids;
  };
  json file = small_json();
  for (const bool in_file : {false, true}) {
    file["pre_tokenizer"]["add_prefix_space"] = in_file;
    write("tokenizer.json", file);
    write("tokenizer_config.json", {{"tokenizer_class", "RobertaTokenizer"}, {"add_prefix_space", false}});
    EXPECT_EQ(encode("a"), Ids{kA});
    EXPECT_EQ(encode_text("a"), Ids{byte_id('a')});
    write("tokenizer_config.json", {{"tokenizer_class", "RobertaTokenizer"}, {"add_prefix_space", true}});
    EXPECT_EQ(encode_text("a"), Ids{kA});
    // The class of a bare file leaves it to the file.
    write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"add_prefix_space", !in_file}});
    EXPECT_EQ(encode("a"), Ids{kA});
    EXPECT_EQ(encode_text("a"), Ids{in_file ? kA : byte_id('a')});
  }
}

// transformers sets a space in front of a text where these files say so, and Plimsoll sets none in front of texts.
TEST_F(TokenizerFiles, ThoseOfALanguageModelAddNoSpace) {
  const Tokenizer ours = Tokenizer::embedded(/*takes_boxes=*/false);
  for (const TokenizerUse use : {TokenizerUse::kWords, TokenizerUse::kTexts}) {
    const bool words = use == TokenizerUse::kWords;
    ours.save(directory_, use);
    const json file = json::parse(read_text_file(directory_ / "tokenizer.json"));
    EXPECT_EQ(file.at("pre_tokenizer").at("add_prefix_space"), words);
    const json config = json::parse(read_text_file(directory_ / "tokenizer_config.json"));
    EXPECT_EQ(config.contains("add_prefix_space"), words);
    const Tokenizer again = Tokenizer::from_directory(directory_);
    Ids word, word_again, text, text_again;
    ours.encode_word("total", word);
    again.encode_word("total", word_again);
    ours.encode_text("total", text);
    again.encode_text("total", text_again);
    EXPECT_EQ(word_again, word);
    EXPECT_EQ(text_again, text);
    EXPECT_NE(word, text);
  }
}

TEST_F(TokenizerFiles, LongestAddedTokenWinsAndRawMatchesComeFirst) {
  json file = small_json();
  const auto add = [&](int id, const char* content, bool normalized) {
    file["added_tokens"].push_back({{"id", id},
                                    {"content", content},
                                    {"normalized", normalized},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"single_word", false},
                                    {"special", false}});
  };
  add(264, "<s>x", true);
  add(265, "x[", false);
  add(byte_id('['), "[", true);  // a token of the vocabulary may be an added one too
  write("tokenizer.json", file);
  EXPECT_EQ(encode("<s>x"), Ids{264});
  EXPECT_EQ(encode("<s>x["), (Ids{0, 265}));
  EXPECT_EQ(encode("[[x["), (Ids{byte_id('['), byte_id('['), 265}));
}

TEST_F(TokenizerFiles, PostProcessorsNameTheTokensAroundAPage) {
  for (const json& processor : {json{{"type", "RobertaProcessing"}, {"cls", {"<pad>", 1}}, {"sep", {"<unk>", 3}}},
                                json{{"type", "Sequence"},
                                     {"processors",
                                      {{{"type", "ByteLevel"}},
                                       {{"type", "TemplateProcessing"},
                                        {"single",
                                         {{{"SpecialToken", {{"id", "<pad>"}}}},
                                          {{"Sequence", {{"id", "A"}}}},
                                          {{"SpecialToken", {{"id", "<unk>"}}}}}}}}}}}) {
    json file = small_json();
    file["post_processor"] = processor;
    write("tokenizer.json", file);
    const SpecialTokens special = read_tokenizer_files(directory_).special;
    EXPECT_EQ(special.bos, 1);
    EXPECT_EQ(special.eos, 3);
  }
  json file = small_json();
  file["post_processor"] = {{"type", "ByteLevel"}};
  write("tokenizer.json", file);
  EXPECT_EQ(read_tokenizer_files(directory_).special.eos, 2);
  write("tokenizer_config.json", {{"sep_token", "<unk>"}});
  EXPECT_EQ(read_tokenizer_files(directory_).special.eos, 3);
}

// `transformers` puts around a text what the file says, unless the tokenizer is of an encoder's class.
TEST_F(TokenizerFiles, ATextHasNoTokensThatTheFileDoesNotName) {
  const json text = {{"Sequence", {{"id", "A"}}}};
  const json pad = {{"SpecialToken", {{"id", "<pad>"}}}}, unk = {{"SpecialToken", {{"id", "<unk>"}}}};
  const auto with = [](const json& single) { return json{{"type", "TemplateProcessing"}, {"single", single}}; };
  struct Case {
    json processor;
    std::int32_t bos, eos;
  };
  json file = small_json();
  for (const char* name : {"PreTrainedTokenizerFast", "Qwen2Tokenizer", "LlamaTokenizerFast", "GPT2Tokenizer"}) {
    write("tokenizer_config.json", {{"tokenizer_class", name}});
    for (const Case& each : {Case{nullptr, kNoToken, kNoToken}, Case{{{"type", "ByteLevel"}}, kNoToken, kNoToken},
                             Case{with({text}), kNoToken, kNoToken}, Case{with({pad, text}), 1, kNoToken},
                             Case{with({text, unk}), kNoToken, 3}, Case{with({pad, text, unk}), 1, 3}}) {
      file["post_processor"] = each.processor;
      write("tokenizer.json", file);
      const SpecialTokens special = read_tokenizer_files(directory_).special;
      EXPECT_EQ(special.bos, each.bos) << name << each.processor;
      EXPECT_EQ(special.eos, each.eos) << name << each.processor;
    }
  }
  // A file that names the roles' tokens still decides which of them are used.
  file["post_processor"] = nullptr;
  write("tokenizer.json", file);
  write("tokenizer_config.json",
        {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"cls_token", "<s>"}, {"sep_token", "</s>"}});
  EXPECT_EQ(read_tokenizer_files(directory_).special.bos, kNoToken);
  EXPECT_EQ(read_tokenizer_files(directory_).special.eos, kNoToken);
  write("tokenizer_config.json", {{"tokenizer_class", "RobertaTokenizer"}});
  EXPECT_EQ(read_tokenizer_files(directory_).special.bos, 0);
  EXPECT_EQ(read_tokenizer_files(directory_).special.eos, 2);
  // The template's ids count, not the names that stand for them.
  write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"}});
  file["post_processor"] = with({{{"SpecialToken", {{"id", "begin"}}}}, text});
  file["post_processor"]["special_tokens"] = {{"begin", {{"id", "begin"}, {"ids", {1}}, {"tokens", {"<pad>"}}}}};
  write("tokenizer.json", file);
  EXPECT_EQ(read_tokenizer_files(directory_).special.bos, 1);
  file["post_processor"]["special_tokens"]["begin"]["ids"] = {1, 3};
  EXPECT_THAT(refusal(file).what, testing::HasSubstr("is not one token"));
  file["post_processor"]["special_tokens"]["begin"]["ids"] = {9999};
  EXPECT_THAT(refusal(file).what, testing::HasSubstr("that the vocabulary lacks"));
  file["post_processor"] = with({pad, unk, text});
  EXPECT_THAT(refusal(file).what, testing::HasSubstr("puts several tokens before a text"));
  file["post_processor"] = with({pad, text, unk, unk});
  EXPECT_THAT(refusal(file).what, testing::HasSubstr("puts several tokens after a text"));
}

TEST_F(TokenizerFiles, NameTheBoxesOfTheTokensAroundAPage) {
  using Box = std::array<std::int32_t, 4>;
  json file = small_json();
  write("tokenizer.json", file);
  write("tokenizer_config.json", {{"tokenizer_class", "RobertaTokenizer"}});
  EXPECT_FALSE(read_tokenizer_files(directory_).bos_box);
  EXPECT_FALSE(read_tokenizer_files(directory_).eos_box);
  write("tokenizer_config.json", {{"cls_token_box", {1, 2, 3, 4}}, {"sep_token_box", {1000, 0, 0, 1000}}});
  EXPECT_EQ(read_tokenizer_files(directory_).bos_box, (Box{1, 2, 3, 4}));
  EXPECT_EQ(read_tokenizer_files(directory_).eos_box, (Box{1000, 0, 0, 1000}));
  for (const json& wrong : {json{1, 2, 3}, json{0, 0, 0, 1001}, json{0, 0, 0, 0.5}, json("none")}) {
    write("tokenizer_config.json", {{"sep_token_box", wrong}});
    EXPECT_THAT(refusal(file).what, testing::HasSubstr("\"sep_token_box\" is not a box"));
  }
}

TEST_F(TokenizerFiles, IgnoresPaddingAndTruncation) {
  json file = small_json();
  file["padding"] = {{"strategy", {{"Fixed", 512}}}, {"pad_id", 1}};
  file["truncation"] = {{"max_length", 1}};
  write("tokenizer.json", file);
  EXPECT_EQ(encode("a").size(), 1U);
  EXPECT_EQ(encode("abcabcabc").size(), 5U);
}

TEST_F(TokenizerFiles, RefusesOtherKindsByName) {
  json file = small_json();
  for (const char* kind : {"WordLevel", "Char"}) {
    file["model"] = {{"type", kind}, {"vocab", json::object()}};
    const Problem problem = refusal(file);
    EXPECT_EQ(problem.found, kind);
    EXPECT_THAT(problem.where, testing::HasSubstr("tokenizer.json"));
    EXPECT_THAT(problem.remedy, testing::HasSubstr("LayoutLMv3"));
  }
  file = small_json();
  file["pre_tokenizer"] = {{"type", "Whitespace"}};
  EXPECT_THAT(refusal(file).found, testing::HasSubstr("Whitespace"));
  file = small_json();
  file["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(refusal(file).found, "Lowercase");
  file = small_json();
  file["model"]["dropout"] = 0.1;
  EXPECT_EQ(refusal(file).found, "\"dropout\": 0.1");
}

TEST_F(TokenizerFiles, RefusesADirectoryWithoutTokenizerSayingWhatLiesThere) {
  EXPECT_EQ(refusal().found, "none of them");
  write("spiece.model", "x");
  EXPECT_THAT(refusal().found, testing::HasSubstr("SentencePiece"));
  write("vocab.json", "{}");
  EXPECT_EQ(refusal().found, "vocab.json without merges.txt");
  EXPECT_THROW(read_tokenizer_files(directory_ / "no" / "such"), DataError);
}

TEST_F(TokenizerFiles, RefusesTornOrContradictoryFiles) {
  struct Case {
    const char* name;
    std::function<void(json&)> spoil;
    const char* what;
  };
  const std::vector<Case> cases = {
      {"no model", [](json& f) { f.erase("model"); }, "not a tokenizer"},
      {"a list", [](json& f) { f = json::array({1}); }, "not a tokenizer"},
      {"vocabulary of numbers",
       [](json& f) {
         f["model"]["vocab"] = {1, 2};
       },
       "not an object"},
      {"negative id", [](json& f) { f["model"]["vocab"]["a"] = -1; }, "out of range"},
      {"huge id", [](json& f) { f["model"]["vocab"]["a"] = 1ULL << 60; }, "out of range"},
      {"fractional id", [](json& f) { f["model"]["vocab"]["a"] = 1.5; }, "out of range"},
      {"same id twice", [](json& f) { f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"]; }, "same id"},
      {"missing byte", [](json& f) { f["model"]["vocab"].erase("z"); }, "lacks some bytes"},
      {"unknown merge",
       [](json& f) {
         f["model"]["merges"].push_back({"q", "q"});
       },
       "vocabulary lacks"},
      {"merge of three",
       [](json& f) {
         f["model"]["merges"].push_back({"a", "b", "c"});
       },
       "not a pair"},
      {"merges as an object", [](json& f) { f["model"]["merges"] = json::object(); }, "merges are not a list"},
      {"merges as text", [](json& f) { f["model"]["merges"] = "a b"; }, "merges are not a list"},
      {"no merges for many tokens",
       [](json& f) {
         f["model"]["merges"] = json::array();
         for (int i = 1000; i < 1600; ++i) f["model"]["vocab"]["word" + std::to_string(i)] = i;
       },
       "no merges"},
      {"added tokens as an object", [](json& f) { f["added_tokens"] = json::object(); }, "added tokens are not a list"},
      {"merge of one", [](json& f) { f["model"]["merges"].push_back("ab"); }, "not a pair"},
      {"merge of numbers",
       [](json& f) {
         f["model"]["merges"].push_back({1, 2});
       },
       "unexpected type"},
      {"a processor that is a text", [](json& f) { f["post_processor"] = "none"; }, "\"post_processor\""},
      {"a decoder that is a number", [](json& f) { f["decoder"] = 3; }, "\"decoder\""},
      {"added id differs", [](json& f) { f["added_tokens"][0]["id"] = 1; }, "differs from the vocabulary's"},
      {"added token empty", [](json& f) { f["added_tokens"][0]["content"] = ""; }, "no text"},
      {"whole words only", [](json& f) { f["added_tokens"][0]["single_word"] = true; }, "whole words"},
      {"no end token",
       [](json& f) {
         f["added_tokens"].erase(2);
         f["model"]["vocab"].erase("</s>");
       },
       "lacks a special token"},
  };
  for (const Case& one : cases) {
    json file = small_json();
    one.spoil(file);
    const Problem problem = refusal(file);
    EXPECT_THAT(problem.what, testing::HasSubstr(one.what)) << one.name;
    EXPECT_THAT(problem.where, testing::HasSubstr("tokenizer.json")) << one.name;
    EXPECT_FALSE(problem.remedy.empty()) << one.name;
  }
  json file = small_json();
  file["added_tokens"][0]["special"] = "yes";
  EXPECT_EQ(refusal(file).found, "type must be boolean, but is string, in \"added_tokens\"");
  const std::string text = small_json().dump();
  for (std::size_t length = 0; length < text.size(); length += 97) {
    EXPECT_THAT(refusal(text.substr(0, length)).what, testing::HasSubstr("truncated")) << length;
  }
}

// A table by id is as long as its largest id.
TEST_F(TokenizerFiles, RefusesAnIdFarFromAllOthers) {
  json file = small_json();
  file["model"]["vocab"]["far"] = 1500;
  write("tokenizer.json", file);
  EXPECT_EQ(read_tokenizer_files(directory_).tokens.size(), 1501U) << "some ids may be free";
  file["model"]["vocab"]["far"] = 4'000'000;
  EXPECT_THAT(refusal(file).found, HasSubstr("4000000 for \"far\""));
  file = small_json();
  file["added_tokens"].push_back({{"id", 3'999'999}, {"content", "<far>"}});
  EXPECT_THAT(refusal(file).found, HasSubstr("3999999 for \"<far>\""));
}

TEST_F(TokenizerFiles, RefusesEndlessNesting) {
  write("tokenizer.json", json("{\"model\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}"));
  EXPECT_THAT(refusal().what, HasSubstr("too deep"));
}

TEST_F(TokenizerFiles, RefusesABadLineOfMergesNamingIt) {
  write("vocab.json", small_json()["model"]["vocab"]);
  write("merges.txt", "#version: 0.2\n\u0120 a\nb c d\n");
  EXPECT_EQ(refusal().found, "line 3: \"b c d\"");
}

}  // namespace
}  // namespace plimsoll
