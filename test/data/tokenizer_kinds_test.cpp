// The ids of `transformers` for each kind of tokenizer, by the small vocabularies of test/data/tokenizers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/tokenizer.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;

TEST(TokenizerKinds, EqualHuggingFaceOnReceiptsScriptsAndRandomUnicodeWords) {
  const std::filesystem::path folder = test_data_dir() / "tokenizers";
  const json golden = json::parse(read_text_file(folder / "golden.json"));
  std::vector<Tokenizer> tokenizers;
  for (const json& name : golden.at("vocabularies")) {
    tokenizers.push_back(Tokenizer::from_directory(folder / name.get<std::string>()));
  }
  ASSERT_GE(golden.at("words").size(), 1000U);
  for (const json& entry : golden.at("words")) {
    const std::string word = entry.at(0);
    for (std::size_t i = 0; i < tokenizers.size(); ++i) {
      Ids ids;
      tokenizers[i].encode_word(word, ids);
      EXPECT_EQ(ids, entry.at(i + 1).get<Ids>()) << entry.at(0).dump() << " by " << golden.at("vocabularies").at(i);
    }
  }
}

// Wherever a text is cut, its ids stay, and each belongs to the part in which its text ends.
TEST(TokenizerKinds, PartsOfATextAreEncodedAsOne) {
  const std::filesystem::path folder = test_data_dir() / "tokenizers";
  const json golden = json::parse(read_text_file(folder / "golden.json"));
  std::size_t compared = 0;
  for (const char* name :
       {"llama3.json", "qwen.json", "smollm.json", "o200k.json", "tekken.json", "llama2.json", "llama2-first.json"}) {
    const Tokenizer tokenizer = Tokenizer::from_directory(folder / name);
    for (const json& entry : golden.at("texts")) {
      const std::string text = entry.at(0);
      Ids whole;
      tokenizer.encode_text(text, whole);
      // The tokens spell the text, unless it is normalised or added tokens swallow spaces.
      std::string spelled;
      std::vector<std::size_t> ends;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        spelled += tokenizer.decode(std::span(whole).subspan(i, 1), /*keep_special=*/true);
        ends.push_back(spelled.size());
      }
      const std::size_t put = spelled == " " + text ? 1 : 0;
      for (std::size_t cut = 1; cut < text.size(); cut += 1 + text.size() / 40) {
        if ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) continue;
        Ids ids, parts;
        tokenizer.encode_parts(std::vector{text.substr(0, cut), text.substr(cut)}, ids, parts);
        ASSERT_EQ(ids, whole) << entry.at(0).dump() << " by " << name << ", cut at " << cut;
        ASSERT_EQ(parts.size(), ids.size());
        ASSERT_TRUE(std::ranges::is_sorted(parts) && parts.front() >= 0 && parts.back() == 1);
        if (spelled.substr(put) != text) continue;
        ++compared;
        Ids expected;
        for (const std::size_t end : ends) expected.push_back(end <= cut + put ? 0 : 1);
        EXPECT_EQ(parts, expected) << entry.at(0).dump() << " by " << name << ", cut at " << cut;
      }
    }
  }
  EXPECT_GT(compared, 1000U);
}

// As they stand, without a space in front.
TEST(TokenizerKinds, OfDecodersEqualHuggingFaceOnRunningTexts) {
  const std::filesystem::path folder = test_data_dir() / "tokenizers";
  const json golden = json::parse(read_text_file(folder / "golden.json"));
  const std::vector<std::string> names = {"llama3.json", "qwen.json",   "smollm.json",      "o200k.json",
                                          "tekken.json", "llama2.json", "llama2-first.json"};
  std::vector<Tokenizer> tokenizers;
  for (const std::string& name : names) tokenizers.push_back(Tokenizer::from_directory(folder / name));
  ASSERT_GE(golden.at("texts").size(), 50U);
  for (const json& entry : golden.at("texts")) {
    for (std::size_t i = 0; i < tokenizers.size(); ++i) {
      Ids ids;
      tokenizers[i].encode_text(entry.at(0).get<std::string>(), ids);
      EXPECT_EQ(ids, entry.at(i + 1).get<Ids>()) << entry.at(0).dump() << " by " << names[i];
    }
  }
}

}  // namespace
}  // namespace plimsoll
