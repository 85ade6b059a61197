// Tests which rows of the word embedding a run needs in memory.
#include "request/word_rows.h"

#include <algorithm>

#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

using Rows = std::vector<std::int32_t>;

class WordRows : public testing::Test {
 protected:
  std::unique_ptr<Dataset> open(const ModelBundle& bundle, const std::string& item) const {
    const fs::path pages = folder_.make(item);
    write_pages(pages, 7, item);
    return open_dataset(bundle, {.data = {pages / "pages.jsonl"}, .box_format = BoxFormat::k1000}, false);
  }
  // The number of rows that are kept; nothing if all are.
  static std::optional<std::size_t> kept(const ModelBundle& bundle) {
    if (bundle.options.word_rows == nullptr) return std::nullopt;
    return bundle.options.word_rows->size();
  }

  ScratchFolder folder_;
};

TEST_F(WordRows, AreThoseOfAllDataAndOfPadding) {
  ModelBundle bundle = small_model();
  const auto train = open(bundle, "item"), evaluation = open(bundle, "other");
  TrainOptions options;
  keep_word_rows(bundle, options, train.get(), evaluation.get());
  ASSERT_TRUE(kept(bundle));
  Rows expected = train->token_ids();
  const Rows more = evaluation->token_ids();
  expected.insert(expected.end(), more.begin(), more.end());
  expected.push_back(bundle.facts().token.pad_id);
  std::ranges::sort(expected);
  expected.erase(std::ranges::unique(expected).begin(), expected.end());
  EXPECT_NE(train->token_ids(), more);
  EXPECT_EQ(*bundle.options.word_rows, expected);
  // The rest of the model is what it was; so is its number of parameters.
  const std::vector<ParameterSpec> specs = bundle.specs(), whole = small_model().specs();
  EXPECT_EQ(parameter_count(specs), parameter_count(whole));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool is_table = specs[i].part == ParameterSpec::Part::kWordEmbedding;
    EXPECT_EQ(specs[i].shape, is_table ? Shape({std::ssize(expected), whole[i].shape[1]}) : whole[i].shape);
    EXPECT_EQ(specs[i].file_shape, whole[i].file_shape);
  }
  keep_word_rows(bundle, options, nullptr, evaluation.get());
  EXPECT_LT(*kept(bundle), expected.size());
}

TEST_F(WordRows, AreAllWhereEachCountsOrChangesOtherwise) {
  ModelBundle bundle = small_model();
  const auto data = open(bundle, "item");
  TrainOptions adafactor;
  adafactor.optim = OptimizerKind::kAdafactor;
  keep_word_rows(bundle, adafactor, data.get(), nullptr);
  EXPECT_FALSE(kept(bundle)) << "Adafactor compares rows";
  keep_word_rows(bundle, adafactor, nullptr, data.get());
  EXPECT_TRUE(kept(bundle)) << "nothing is updated";
  TrainOptions no_epsilon;
  no_epsilon.adam_epsilon = 0;
  keep_word_rows(bundle, no_epsilon, data.get(), nullptr);
  EXPECT_FALSE(kept(bundle)) << "0 / 0 is NaN";
  bundle.options.freeze = {"*embeddings*"};
  for (TrainOptions options : {adafactor, no_epsilon}) {
    keep_word_rows(bundle, options, data.get(), nullptr);
    EXPECT_TRUE(kept(bundle)) << "the table does not train";
  }
}

TEST_F(WordRows, AreAllWhereTheHeadScoresThem) {
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    ModelBundle bundle = open_model(preset);
    const fs::path texts = folder_.write(std::string(preset) + ".jsonl", "{\"text\": \"Total 12.50\"}\n");
    const auto data = open_dataset(bundle, {.data = {texts}}, false);
    TrainOptions options;
    keep_word_rows(bundle, options, data.get(), nullptr);
    const std::vector<ParameterSpec> specs = bundle.specs();
    const bool tied = std::ranges::any_of(specs, [](const ParameterSpec& spec) {
      return spec.scores_tokens && spec.part == ParameterSpec::Part::kWordEmbedding;
    });
    EXPECT_EQ(kept(bundle).has_value(), !tied) << preset;
  }
}

// Both models read the same input.
TEST_F(WordRows, AreTheTeachersToo) {
  ModelBundle bundle = small_model();
  const auto data = open(bundle, "item");
  TrainOptions options;
  options.teacher = std::make_shared<const ModelBundle>(small_model());
  const std::shared_ptr<const ModelBundle> before = options.teacher;
  keep_word_rows(bundle, options, data.get(), nullptr);
  ASSERT_TRUE(kept(bundle));
  EXPECT_EQ(options.teacher->options.word_rows, bundle.options.word_rows);
  EXPECT_EQ(before->options.word_rows, nullptr);
}

}  // namespace
}  // namespace plimsoll::test
