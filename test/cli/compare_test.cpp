// Two models side by side on the same pages.
#include "base/file.h"
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

class Compare : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    ASSERT_EQ(run(train_arguments("a", {"--max-steps", "2"})).code, 0);
    ASSERT_EQ(run(train_arguments("b", {"--max-steps", "6"})).code, 0);
  }
  Outcome compare(const std::string& a, const std::string& b, const Arguments& more = {}) const {
    Arguments all = {"compare",   path(a), path(b),    "--data", path("pages/train.jsonl"), "--budget", "1GiB",
                     "--threads", "1",     "--rounds", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  double f1_of(const std::string& model) const {
    const Outcome outcome =
        run({"eval", "--model", path(model), "--data", path("pages/train.jsonl"), "--threads", "1", "--json"});
    return json::parse(outcome.out).at("f1");
  }
};

TEST_F(Compare, SaysOfEachWhatEvalSaysOfItAlone) {
  const Outcome compared = compare("a", "b", {"--json"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  const json told = json::parse(compared.out);
  EXPECT_EQ(told.at("a").at("metrics").at("f1"), f1_of("a"));
  EXPECT_EQ(told.at("b").at("metrics").at("f1"), f1_of("b"));
  EXPECT_EQ(told.at("a").at("weight_bytes"), fs::file_size(at("a/model.safetensors")));
  EXPECT_EQ(told.at("pages"), read_pages("train.jsonl").size());
  for (const char* side : {"a", "b"}) {
    const json& one = told.at(side);
    EXPECT_LE(one.at("interval").at(0), one.at("metrics").at("f1"));
    EXPECT_GE(one.at("interval").at(1), one.at("metrics").at("f1"));
    EXPECT_GT(one.at("seconds_per_page"), 0);
  }
  EXPECT_LE(told.at("difference_interval").at(0), told.at("difference"));
  EXPECT_GE(told.at("difference_interval").at(1), told.at("difference"));
}

// Both models are opened several times, and what is wrong with the pages is said once.
TEST_F(Compare, WarnsOnce) {
  std::string pages = read_text_file(at("pages/train.jsonl"));
  for (json page : read_pages("train.jsonl")) {
    page["id"] = "again " + page.at("id").get<std::string>();
    pages += page.dump() + "\n";
  }
  write_bytes(at("pages/twice.jsonl"), pages);
  const Outcome compared = run({"compare", path("a"), path("b"), "--data", path("pages/twice.jsonl"), "--rounds", "1"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  const std::size_t first = compared.err.find("[duplicate-page]");
  ASSERT_NE(first, std::string::npos) << compared.err;
  EXPECT_EQ(compared.err.find("[duplicate-page]", first + 1), std::string::npos) << compared.err;
}

// The difference of a model from itself is 0 whichever pages are drawn, though its own score is not sure.
TEST_F(Compare, AModelDoesNotDifferFromItself) {
  const Outcome compared = compare("b", "b", {"--json"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  const json told = json::parse(compared.out);
  EXPECT_EQ(told.at("difference"), 0);
  EXPECT_EQ(told.at("difference_interval"), json::array({0.0, 0.0}));
  EXPECT_EQ(told.at("agreement"), 1);
  // Its columns are told apart.
  EXPECT_THAT(compare("b", "b", {"--load-in-8bit"}).out, testing::ContainsRegex("A: b +B: b"));
}

TEST_F(Compare, PrintsATable) {
  const Outcome compared = compare("a", "b");
  ASSERT_EQ(compared.code, 0) << compared.err;
  for (const char* part : {"parameters", "weights on disk", "predicted peak", "seconds per page",
                           "difference of f1, B - A", "% of what they find is the same"}) {
    EXPECT_THAT(compared.out, HasSubstr(part));
  }
}

TEST_F(Compare, LongNamesStandApart) {
  const std::string longer = "a_model_with_a_longer_name_than_a_column_has";
  fs::rename(at("a"), at(longer));
  EXPECT_THAT(compare("b", longer).out, HasSubstr("  " + longer + " "));
}

TEST_F(Compare, RefusesModelsOfTwoTasksAndPresets) {
  ASSERT_EQ(run({"init", "--model", path("a"), "--task", "question-answering", "--output-dir", path("asks")}).code, 0);
  expect_message(compare("a", "asks"), 2, {"different tasks", "question-answering", "token-classification"});
  expect_message(run({"compare", path("a"), "layoutlmv3-tiny", "--data", path("pages/train.jsonl")}), 2,
                 {"layoutlmv3-tiny"});
}

}  // namespace
}  // namespace plimsoll
