// Tests convert as a user runs it: formats, what it says, round trips to the other commands.
#include <algorithm>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

class Convert : public ProgramTest {
 protected:
  std::string sample(const std::string& name) const { return (source_dir() / "test/convert/samples" / name).string(); }
};

TEST_F(Convert, SaysWhatItRecognisedAndWhatGotLost) {
  const Outcome outcome = run({"convert", "--input", sample("azure-read.json"), "--output", path("pages.jsonl")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("azure-read.json is read as azure"));
  EXPECT_THAT(outcome.err, HasSubstr("warning: 1 page has no picture"));
  EXPECT_THAT(outcome.out, HasSubstr("1 page, 2 words, written to"));
  const nlohmann::json page = nlohmann::json::parse(file_bytes(at("pages.jsonl")));
  EXPECT_EQ(page["words"].size(), 2U);
}

TEST_F(Convert, WritesPagesToStandardOutput) {
  const Outcome outcome = run({"convert", "--input", sample("cord.json"), "--output", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["labels"][0], "B-MENU.NM");
}

TEST_F(Convert, SummaryAsJson) {
  const Outcome outcome = run(
      {"convert", "--json", "--input", sample("pages.jsonl"), "--to", "label-studio", "--output", path("tasks.json")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json summary = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(summary["pages"], 3);
  EXPECT_EQ(summary["labelled_pages"], 2);
  EXPECT_EQ(summary["label_config"], path("tasks.config.xml"));
  EXPECT_THAT(file_bytes(at("tasks.config.xml")), HasSubstr("TOTAL"));
}

TEST_F(Convert, ErrorsNameThePlace) {
  expect_message(run({"convert", "--input", sample("textract.json"), "--output", path("p.jsonl")}), 3,
                 {"textract.json, page 1", "--images DIR"});
  EXPECT_FALSE(fs::exists(at("p.jsonl")));
  write_bytes(at("foreign.json"), "{\"layers\": []}");
  expect_message(run({"convert", "--input", path("foreign.json"), "--output", path("p.jsonl")}), 3,
                 {"format is not recognised", "foreign.json", "\"layers\"", "--from"});
  expect_message(run({"convert", "--input", path("foreign.json"), "--output", path("foreign.json")}), 2,
                 {"would overwrite the input", "--output"});
  expect_message(run({"convert", "--input", path("nothing-*.xml"), "--output", path("p.jsonl")}), 3,
                 {"no file matches"});
  expect_message(run({"convert", "--input", path("foreign.json"), "--from", "word", "--output", path("p.jsonl")}), 2,
                 {"--from", "hocr"});
  expect_message(
      run({"convert", "--input", path("foreign.json"), "--label-config", path("c.xml"), "--output", path("p.jsonl")}),
      2, {"--label-config", "--to label-studio"});
}

// What is drawn goes to Label Studio and back without a change in words, boxes or labels, and can be checked.
TEST_F(Convert, DrawnPagesComeBackFromLabelStudio) {
  draw_pages();
  ASSERT_EQ(run({"convert", "--input", path("pages/train.jsonl"), "--to", "label-studio", "--output",
                 path("pages/tasks.json")})
                .code,
            0);
  const Outcome back = run({"convert", "--input", path("pages/tasks.json"), "--output", path("pages/again.jsonl")});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.err, Not(HasSubstr("warning")));
  const std::vector<nlohmann::json> before = read_pages("train.jsonl"), after = read_pages("again.jsonl");
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (const char* key : {"words", "labels", "boxes", "image"}) EXPECT_EQ(before[i][key], after[i][key]) << key;
  }
  const Outcome checked = run({"check", "--model", "layoutlmv3-tiny", "--data", path("pages/again.jsonl")});
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
}

TEST_F(Convert, PredictionsStandBesideTheData) {
  draw_pages();
  make_model();
  ASSERT_EQ(run({"predict", "--model", path("model"), "--data", path("pages/train.jsonl"), "--output",
                 path("pages/found.jsonl"), "--budget", "1GiB", "--threads", "1"})
                .code,
            0);
  const Outcome outcome = run({"convert", "--input", path("pages/train.jsonl"), "--predictions",
                               path("pages/found.jsonl"), "--to", "conll", "--output", path("both.conll")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(file_bytes(at("both.conll")));
  std::size_t words = 0, pages = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      ++pages;
      continue;
    }
    ++words;
    EXPECT_EQ(std::count(line.begin(), line.end(), ' '), 2) << line;
  }
  std::size_t expected = 0;
  for (const nlohmann::json& page : read_pages("train.jsonl")) expected += page["words"].size();
  EXPECT_EQ(words, expected);
  EXPECT_EQ(pages, read_pages("train.jsonl").size());
}

}  // namespace
}  // namespace plimsoll
