#include "data/tokenizer_trim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/tokenizer.h"
#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;
namespace fs = std::filesystem;
using test::ScratchFolder;

Ids encoded(const Tokenizer& tokenizer, const std::string& word) {
  Ids ids;
  tokenizer.encode_word(word, ids);
  return ids;
}

std::vector<std::string> golden_words() {
  std::vector<std::string> words;
  const json golden = json::parse(read_text_file(test_data_dir() / "tokenizers/golden.json"));
  for (const json& entry : golden.at("words")) words.push_back(entry.at(0));
  return words;
}

// Writes the tokenizer that `path` holds with the tokens of the words alone.
std::vector<std::int32_t> trim(const fs::path& path, const std::vector<std::string>& words,
                               const ScratchFolder& folder) {
  const Tokenizer tokenizer = Tokenizer::from_directory(path);
  const TokenizerDefinition definition = read_tokenizer_files(path);
  std::vector<bool> kept(definition.tokens.size());
  for (const std::string& word : words) {
    for (const std::int32_t id : encoded(tokenizer, word)) kept[static_cast<std::size_t>(id)] = true;
  }
  keep_needed_tokens(definition, kept);
  if (fs::exists(path / "config.json")) folder.write("config.json", read_text_file(path / "config.json"));
  for (const TokenizerFile& file : trimmed_files(definition, kept)) folder.write(file.name, file.content);
  return trimmed_ids(kept);
}

void expect_same_pieces(const fs::path& path) {
  SCOPED_TRACE(path.string());
  const ScratchFolder folder;
  std::vector<std::string> kept, others;
  for (const std::string& word : golden_words()) (8 * kept.size() <= others.size() ? kept : others).push_back(word);
  const std::vector<std::int32_t> now = trim(path, kept, folder);
  const Tokenizer before = Tokenizer::from_directory(path), after = Tokenizer::from_directory(folder.path());
  EXPECT_LT(after.vocab_size(), before.vocab_size());
  EXPECT_EQ(after.vocab_size(), std::ssize(now) - std::ranges::count(now, kNoToken));
  for (const std::string& word : kept) {
    Ids expected = encoded(before, word);
    for (std::int32_t& id : expected) id = now.at(static_cast<std::size_t>(id));
    ASSERT_EQ(encoded(after, word), expected) << word;
  }
  std::size_t differ = 0;
  for (const std::string& word : others) {
    const Ids ids = encoded(before, word), found = encoded(after, word);
    differ += ids.size() != found.size();
    // What was known is known, in smaller pieces; an unknown piece of WordPiece is a word, and stays one.
    EXPECT_EQ(std::ranges::count(ids, before.special().unk), std::ranges::count(found, after.special().unk)) << word;
    EXPECT_EQ(before.decode(ids), after.decode(found)) << word;
  }
  EXPECT_GT(differ, 0U) << "nothing was trimmed that other words use";
}

TEST(TokenizerTrim, KeptWordsHaveTheSamePieces) {
  const fs::path folder = test_data_dir() / "tokenizers";
  for (const char* name : {"bert", "bert-cased.json", "xlm-roberta", "unigram.json", "llama2.json"}) expect_same_pieces(folder / name);
}

// As one tokenizer.json, and as the two files of before.
TEST(TokenizerTrim, ByteLevelBpeToo) {
  const ScratchFolder folder, old;
  Tokenizer::embedded().save(folder.path());
  expect_same_pieces(folder.path());
  const json model = json::parse(read_text_file(folder / "tokenizer.json")).at("model");
  std::string merges = "#version: 0.2\n";
  for (const json& merge : model.at("merges")) {
    merges += merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>() + "\n";
  }
  old.write("vocab.json", model.at("vocab").dump());
  old.write("merges.txt", merges);
  old.write("tokenizer_config.json", read_text_file(folder / "tokenizer_config.json"));
  expect_same_pieces(old.path());
}

// "abc" comes about by two merges, whichever "a" or "c" met "b" first; what only "xy" needs goes.
TEST(TokenizerTrim, EveryWayToAKeptTokenStays) {
  const ScratchFolder folder, trimmed;
  Tokenizer::embedded().save(folder.path());
  json file = json::parse(read_text_file(folder / "tokenizer.json"));
  json& vocabulary = file["model"]["vocab"];
  for (auto entry = vocabulary.begin(); entry != vocabulary.end();) {
    const bool byte = alphabet_to_bytes(entry.key()).size() == 1;
    entry = byte || entry.value() < 4 ? std::next(entry) : vocabulary.erase(entry);
  }
  std::int64_t next = 0;
  for (const auto& [token, id] : vocabulary.items()) next = std::max(next, id.get<std::int64_t>() + 1);
  for (const char* token : {"ab", "bc", "abc", "xy", "<mask>"}) vocabulary[token] = next++;
  for (json& token : file["added_tokens"]) token["id"] = vocabulary.at(token.at("content").get<std::string>());
  file["model"]["merges"] = json::parse(R"([["a", "b"], ["b", "c"], ["a", "bc"], ["ab", "c"], ["x", "y"]])");
  folder.write("tokenizer.json", file.dump());
  trim(folder.path(), {"abc"}, trimmed);
  const json now = json::parse(read_text_file(trimmed / "tokenizer.json")).at("model");
  EXPECT_EQ(now.at("merges"), json::parse(R"([["a", "b"], ["b", "c"], ["a", "bc"], ["ab", "c"]])"));
  EXPECT_FALSE(now.at("vocab").contains("xy"));
  EXPECT_EQ(now.at("vocab").size(), vocabulary.size() - 1);
}

// Ids stand in a post-processor, in the list of added tokens and in the configuration, too.
TEST(TokenizerTrim, RenumbersEveryIdThatAFileNames) {
  const ScratchFolder folder, trimmed;
  Tokenizer::embedded().save(folder.path());
  json file = json::parse(read_text_file(folder / "tokenizer.json"));
  const std::int64_t mask = file.at("model").at("vocab").at("<mask>");
  file["padding"] = {{"pad_id", 1}, {"pad_token", "<pad>"}};
  json part = json::parse(R"({"type": "TemplateProcessing", "single": [], "pair": []})");
  part["special_tokens"]["<mask>"] = {
      {"id", "<mask>"}, {"ids", json::array({mask})}, {"tokens", json::array({"<mask>"})}};
  file["post_processor"] = {{"type", "Sequence"}, {"processors", json::array({part})}};
  folder.write("tokenizer.json", file.dump());
  json config = json::parse(read_text_file(folder / "tokenizer_config.json"));
  for (const json& token : file.at("added_tokens")) {
    json entry = token;
    entry.erase("id");
    config["added_tokens_decoder"][std::to_string(token.at("id").get<std::int64_t>())] = entry;
  }
  folder.write("tokenizer_config.json", config.dump());
  const std::vector<std::int32_t> now = trim(folder.path(), {"TOTAL"}, trimmed);
  const std::int32_t mask_now = now.at(static_cast<std::size_t>(mask));
  ASSERT_LT(mask_now, mask);
  const json written = json::parse(read_text_file(trimmed / "tokenizer.json"));
  EXPECT_EQ(written.at("padding").at("pad_id"), 1);
  EXPECT_EQ(written.at("post_processor").at("processors").at(0).at("special_tokens").at("<mask>").at("ids"),
            json::array({mask_now}));
  EXPECT_EQ(written.at("added_tokens").back().at("id"), mask_now);
  EXPECT_EQ(written.at("model").at("vocab").at("<mask>"), mask_now);
  const json decoder = json::parse(read_text_file(trimmed / "tokenizer_config.json")).at("added_tokens_decoder");
  EXPECT_TRUE(decoder.contains(std::to_string(mask_now)));
  EXPECT_EQ(decoder.size(), file.at("added_tokens").size());
}

}  // namespace
}  // namespace plimsoll
