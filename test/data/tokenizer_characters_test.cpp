// BPE of characters, as Llama 2 has it, by the class and the configuration that say where spaces are set in front; what
// `transformers` 5.17 makes of each was read off its backend. Ids by the file alone: tokenizer_kinds_test.cpp.
#include "data/tokenizer_characters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer.h"
#include "harness/paths.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;
using test::expect_error;
using test::ScratchFolder;

json file() { return json::parse(read_text_file(test_data_dir() / "tokenizers/llama2.json")); }

// A directory with these files.
Tokenizer tokenizer_of(const json& tokenizer, const json& config, const json& model = {{"model_type", "llama"}}) {
  const ScratchFolder folder;
  folder.write("tokenizer.json", tokenizer.dump());
  if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
  folder.write("config.json", model.dump());
  return Tokenizer::from_directory(folder.path());
}
json llama(json options = json::object()) {
  options.update(
      {{"tokenizer_class", "LlamaTokenizerFast"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  return options;
}

Ids text_ids(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode_text(text, ids);
  return ids;
}
std::string spelled(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const std::int32_t id : ids) text.append(tokenizer.id_to_token(id)).append(" ");
  return text;
}
std::string text_spelled(const Tokenizer& tokenizer, std::string_view text) {
  std::string all;
  for (const char each : spelled(tokenizer, text_ids(tokenizer, text))) {
    if (each != ' ') all += each;
  }
  return all;
}

TEST(TokenizerCharacters, TheClassSaysWhereSpacesAreSetInFront) {
  // Behind an added token, in front of spaces, and at the begin.
  const std::string text = "a</s>b c", spaces = "  x";
  const Tokenizer first = tokenizer_of(file(), llama());
  EXPECT_EQ(text_spelled(first, text), "▁a</s>b▁c");
  EXPECT_EQ(text_spelled(first, spaces), "▁▁x");
  const Tokenizer always = tokenizer_of(file(), llama({{"legacy", true}}));
  EXPECT_EQ(text_spelled(always, text), "▁a</s>▁b▁c");
  EXPECT_EQ(text_spelled(always, spaces), "▁▁x");
  const Tokenizer never = tokenizer_of(file(), llama({{"add_prefix_space", false}}));
  EXPECT_EQ(text_spelled(never, text), "a</s>b▁c");
  const Tokenizer by_default = tokenizer_of(file(), llama({{"add_prefix_space", nullptr}, {"legacy", nullptr}}));
  EXPECT_EQ(text_spelled(by_default, text), "▁a</s>b▁c");
  const Tokenizer by_file = tokenizer_of(file(), {{"tokenizer_class", "PreTrainedTokenizerFast"}});
  EXPECT_EQ(text_spelled(by_file, text), "▁a</s>▁b▁c");
  EXPECT_EQ(text_spelled(by_file, spaces), "▁▁▁x");
  // Where no file names the class, the model's type does not either.
  EXPECT_EQ(text_spelled(tokenizer_of(file(), nullptr), spaces), "▁▁▁x");
  EXPECT_EQ(text_spelled(tokenizer_of(file(), json::object()), text), "▁a</s>▁b▁c");
  EXPECT_EQ(text_spelled(tokenizer_of(file(), {{"add_prefix_space", false}}), text), "▁a</s>▁b▁c");
}

TEST(TokenizerCharacters, TheClassAndAMetaspaceThatSaysTheSameAgree) {
  const Tokenizer by_class = tokenizer_of(file(), llama());
  const Tokenizer by_file = Tokenizer::from_directory(test_data_dir() / "tokenizers/llama2-first.json");
  const json golden = json::parse(read_text_file(test_data_dir() / "tokenizers/golden.json"));
  for (const json& entry : golden.at("texts")) {
    const std::string text = entry.at(0);
    EXPECT_EQ(text_ids(by_class, text), text_ids(by_file, text)) << text;
  }
}

TEST(TokenizerCharacters, AWordOfAPageStandsBehindASpace) {
  for (const json& options : {json::object(), json{{"add_prefix_space", false}}}) {
    const Tokenizer tokenizer = tokenizer_of(file(), llama(options));
    Ids word;
    tokenizer.encode_word("TOTAL", word);
    EXPECT_EQ(word, text_ids(tokenizer, " TOTAL"));
    EXPECT_EQ(tokenizer.decode(word), " TOTAL");
  }
}

TEST(TokenizerCharacters, ACharacterWithoutATokenIsItsBytes) {
  const Tokenizer tokenizer = tokenizer_of(file(), llama());
  EXPECT_EQ(text_spelled(tokenizer, "\U0001F4A5\n"), "▁<0xF0><0x9F><0x92><0xA5><0x0A>");
  EXPECT_EQ(tokenizer.decode(text_ids(tokenizer, "a  \U0001F4A5\n")), " a  \U0001F4A5\n");
  // A text of many characters is merged as a whole, and no token is lost.
  std::string text;
  for (int i = 0; i < 500; ++i) text += "total due ";
  EXPECT_EQ(tokenizer.decode(text_ids(tokenizer, text)), " " + text);
}

// A conversation by Zephyr's template: what is learnt are the tokens that the whole text has there.
TEST(TokenizerCharacters, AnAnswerHasTheTokensOfTheWholeText) {
  const Tokenizer tokenizer = tokenizer_of(file(), {{"tokenizer_class", "PreTrainedTokenizerFast"}});
  const std::vector<std::string> turns = {"paid</s>\n", "12.50</s>\n", "due", " 7</s>"};
  Ids ids, parts;
  tokenizer.encode_parts(turns, ids, parts);
  EXPECT_EQ(ids, text_ids(tokenizer, "paid</s>\n12.50</s>\ndue 7</s>"));
  std::vector<std::string> spelled_parts(turns.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    spelled_parts[static_cast<std::size_t>(parts[i])] += tokenizer.id_to_token(ids[i]);
  }
  EXPECT_EQ(spelled_parts, (std::vector<std::string>{"▁paid</s>▁<0x0A>", "12.50</s>▁<0x0A>", "due", "▁7</s>"}));
}

TEST(TokenizerCharacters, NamesTheTokensAroundATextAndBehindIt) {
  const Tokenizer tokenizer = tokenizer_of(file(), llama());
  EXPECT_EQ(tokenizer.id_to_token(tokenizer.special().bos), "<s>");
  EXPECT_EQ(tokenizer.id_to_token(tokenizer.special().end_of_text), "</s>");
  EXPECT_EQ(tokenizer.special().eos, kNoToken);
}

TEST(TokenizerCharacters, WritesTheClassThatItWasReadFor) {
  for (const bool alone : {false, true}) {
    const ScratchFolder from, to;
    from.write("tokenizer.json", file().dump());
    if (!alone) from.write("config.json", R"({"model_type": "llama", "tokenizer_class": "LlamaTokenizer"})");
    const Tokenizer tokenizer = Tokenizer::from_directory(alone ? from.path() / "tokenizer.json" : from.path());
    tokenizer.save(to.path());
    const Tokenizer again = Tokenizer::from_directory(to.path());
    EXPECT_EQ(text_spelled(again, "  x"), alone ? "▁▁▁x" : "▁▁x");
    EXPECT_EQ(text_ids(again, "  x"), text_ids(tokenizer, "  x"));
    EXPECT_EQ(again.special().end_of_text, tokenizer.special().end_of_text);
  }
}

TEST(TokenizerCharacters, BytesHaveTokens) {
  EXPECT_EQ(byte_token(0x0A), "<0x0A>");
  EXPECT_EQ(byte_of_token("<0xFF>"), 0xFF);
  for (const char* other : {"<0xff>", "<0xF>", "<0xFFF>", "0xFF", "<0xFG>", ""})
    EXPECT_FALSE(byte_of_token(other)) << other;
}

TEST(TokenizerCharacters, RefusesOtherWays) {
  expect_error<DataError>(
      [] {
        tokenizer_of(file(), {{"tokenizer_class", "GemmaTokenizer"}});
      },
      {"merges characters", "GemmaTokenizer", "LlamaTokenizer"});
  json other = file();
  other["normalizer"] = {{"type", "Lowercase"}};
  expect_error<DataError>(
      [&] {
        tokenizer_of(other, {{"tokenizer_class", "PreTrainedTokenizerFast"}});
      },
      {"merges characters", "normalizer"});
  json without = file();
  without["model"]["vocab"].erase("<0x7F>");
  expect_error<DataError>([&] { tokenizer_of(without, llama()); }, {"lacks some bytes", "0x7F"});
}

}  // namespace
}  // namespace plimsoll
