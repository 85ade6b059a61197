// Runs plimsoll check as a user does: findings with their places, exit codes, repairs; train reports the same first.
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class Check : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }
  Arguments arguments(const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"check", "--model", "layoutlmv3-tiny", "--data", path(data)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Check, CleanPagesPass) {
  const Outcome text = run(arguments("pages/train.jsonl", {"--eval-data", path("pages/validation.jsonl")}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, testing::HasSubstr("pages/s\nno errors, no warnings\n"));
  EXPECT_EQ(text.err, "");
  const Outcome json = run(arguments("pages/train.jsonl", {"--json", "--decode-images"}));
  const nlohmann::json report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report.at("pages"), 4);
  EXPECT_EQ(report.at("warnings"), 0);
  EXPECT_GT(report.at("pages_per_second"), 0);
}

// `train` would refuse them, whatever the data.
TEST_F(Check, WeightsThatDoNotFitTheConfigAreAnError) {
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("model")}).code, 0);
  nlohmann::json config = nlohmann::json::parse(file_bytes(at("model/config.json")));
  config["intermediate_size"] = 512;
  write_bytes(at("model/config.json"), config.dump());
  const Outcome outcome =
      run({"check", "--model", path("model"), "--data", path("pages/train.jsonl"), "--labels", "O,B-TOTAL"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, testing::AllOf(testing::HasSubstr("[weights-unusable]"), testing::HasSubstr("512")));
}

TEST_F(Check, WarningsAreCounted) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages.push_back(pages[0]);
  pages.back()["id"] = "again";
  write_pages("twice.jsonl", pages);
  const auto warnings = nlohmann::json::parse(run(arguments("pages/twice.jsonl", {"--json"})).out).at("warnings");
  ASSERT_GT(warnings, 0);
  EXPECT_THAT(run(arguments("pages/twice.jsonl")).out,
              testing::HasSubstr("no errors, " + warnings.dump() + (warnings == 1 ? " warning\n" : " warnings\n")));
}

// The first time's copy is no reason to need more of a page than the model does.
TEST_F(Check, MendsAgainOverTheCopyOfTheFirstTime) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages[0].erase("image");
  pages[1]["words"][0] = nullptr;
  write_pages("bad.jsonl", pages);
  std::vector<nlohmann::json> reports;
  for (int turn = 0; turn < 2; ++turn) {
    const Outcome outcome = run(arguments("pages/bad.jsonl", {"--fix", path("mended.jsonl"), "--json"}));
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    reports.push_back(nlohmann::json::parse(outcome.out));
  }
  EXPECT_GE(reports[0].at("errors").get<int>(), 2);
  for (const char* key : {"findings", "errors", "fixed"}) EXPECT_EQ(reports[0].at(key), reports[1].at(key)) << key;
}

TEST_F(Check, MendsACopyAndSaysWhatIsLeft) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  const nlohmann::json box = pages[0]["boxes"][2];
  pages[0]["boxes"][2] = {box[2], box[1], box[0], box[3]};
  write_pages("bad.jsonl", pages);
  const Outcome mended = run(arguments("pages/bad.jsonl", {"--fix", path("mended.jsonl")}));
  EXPECT_EQ(mended.code, 0) << mended.out;
  EXPECT_THAT(mended.out, testing::HasSubstr("1 box of 1 page changed"));
  EXPECT_THAT(mended.out, testing::HasSubstr("no errors in " + path("mended.jsonl")));
  EXPECT_EQ(run(arguments("mended.jsonl")).code, 0);

  pages[1]["boxes"][0] = {10, 10, 99999, 20};
  write_pages("bad.jsonl", pages);
  const Outcome left = run(arguments("pages/bad.jsonl", {"--fix", path("mended.jsonl"), "--json"}));
  EXPECT_EQ(left.code, 3);
  const nlohmann::json report = nlohmann::json::parse(left.out);
  EXPECT_EQ(report.at("fixed").at("boxes"), 1);
  EXPECT_EQ(report.at("fixed").at("errors"), 1);
  EXPECT_EQ(report.at("findings").at(0).at("kind"), "box-outside");
  EXPECT_THAT(report.at("findings").at(0).at("places").at(0).get<std::string>(),
              testing::HasSubstr("bad.jsonl:2, page"));
}

TEST_F(Check, TrainSaysTheSameFirst) {
  std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  for (const char* key : {"image", "width", "height", "words", "boxes", "labels"})
    pages[0][key] = read_pages("train.jsonl")[1][key];
  write_pages("held-out.jsonl", pages);
  const Outcome trained =
      run(train_arguments("run", {"--max-steps", "1", "--eval-data", path("pages/held-out.jsonl")}));
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, testing::HasSubstr("[page-in-both]"));
  EXPECT_THAT(trained.err, testing::HasSubstr("train.jsonl:2"));
  const Outcome checked = run(arguments("pages/train.jsonl", {"--eval-data", path("pages/held-out.jsonl")}));
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.out, testing::HasSubstr("warning [page-in-both]"));

  pages[1]["id"] = pages[0]["id"];
  write_pages("held-out.jsonl", pages);
  expect_message(run(train_arguments("other", {"--max-steps", "1", "--eval-data", path("pages/held-out.jsonl")})), 3,
                 {"held-out.jsonl:2", "the same id"});
}

}  // namespace
}  // namespace plimsoll
