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

// As they stand, without a space in front.
TEST(TokenizerKinds, OfDecodersEqualHuggingFaceOnRunningTexts) {
  const std::filesystem::path folder = test_data_dir() / "tokenizers";
  const json golden = json::parse(read_text_file(folder / "golden.json"));
  const std::vector<std::string> names = {"llama3.json", "qwen.json", "smollm.json", "llama2.json", "llama2-first.json"};
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
