// Tests the model that stays in memory.
#include <gtest/gtest.h>

#include <sstream>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class Serve : public ProgramTest {};

TEST_F(Serve, AnswersRequestAfterRequest) {
  draw_pages();
  make_model();
  const std::string train = path("pages/train.jsonl"), held_out = path("pages/validation.jsonl");
  const auto predicted = [&](const std::string& data) {
    const Outcome outcome = run({"predict", "--model", path("model"), "--data", data, "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const auto done = [](int pages) {
    return "{\"done\":{\"pages\":" + std::to_string(pages) + ",\"skipped_pages\":[]}}\n";
  };
  const std::string of_held_out = predicted(held_out), of_train = predicted(train);
  // What is asked for in the middle cannot be answered.
  const Outcome outcome = run_with_input(
      {"serve", "--model", path("model"), "--threads", "1"},
      nlohmann::json{{"data", held_out}}.dump() + "\n" + nlohmann::json{{"data", path("absent.jsonl")}}.dump() +
          "\n{\"data\": 7}\nnothing\n\n{\"data\": \"" + std::string(2 << 20, 'x') +
          "\"}\n{\"data\": \"a\", \"data\": \"b\"}\n" +
          nlohmann::json{{"data", {train, held_out}}, {"box_format", "pixel"}}.dump());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line, answers;
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("ready").at("task"), "token-classification");
  int errors = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("{\"error\"")) {
      ++errors;
      EXPECT_FALSE(nlohmann::json::parse(line).at("error").at("what").empty());
      EXPECT_LT(line.size(), 2000U);
    } else {
      answers += line + "\n";
    }
  }
  EXPECT_EQ(errors, 5);
  EXPECT_EQ(answers, of_held_out + done(2) + of_train + of_held_out + done(6));
}

TEST_F(Serve, RefusesAModelWithoutAHead) {
  const Outcome outcome = run_with_input({"serve", "--model", "layoutlmv3-tiny"}, "");
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, testing::HasSubstr("error: "));
}

}  // namespace
}  // namespace plimsoll
