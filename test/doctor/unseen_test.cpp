// How often the doctor is right on logs that the rules' author had not seen: test/doctor/unseen/answers.tsv.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = unseen_logs();

struct Answer {
  std::string set, log, right, first, cause;
};

std::vector<Answer> answers() {
  std::ifstream file(kFolder / "answers.tsv");
  std::vector<Answer> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    Answer answer;
    for (std::string* field : {&answer.set, &answer.log, &answer.right, &answer.first, &answer.cause})
      std::getline(fields, *field, '\t');
    out.push_back(std::move(answer));
  }
  return out;
}

std::string say(const fs::path& path) {
  const Diagnosis diagnosis = diagnose(text_of(path));
  if (diagnosis.no_failure) return "ok";
  if (diagnosis.rule == nullptr) return "-";
  return (is_sure(diagnosis) ? "" : "?") + std::string(diagnosis.rule->name);
}

bool is_right(const Answer& answer, const std::string& said) {
  const bool doubts = said.starts_with('?');
  std::istringstream rights(answer.right);
  for (std::string right; rights >> right;)
    if (right == said.substr(doubts ? 1 : 0) || (doubts && right == "-")) return true;
  return false;
}

struct Score {
  int right = 0, missed = 0, wrong = 0;
  void add(const Answer& answer, const std::string& said) {
    ++(is_right(answer, said) ? right : said == "-" || said.starts_with('?') ? missed : wrong);
  }
  std::string text() const {
    return std::to_string(right) + " of " + std::to_string(right + missed + wrong) + " right, " +
           std::to_string(missed) + " not recognised, " + std::to_string(wrong) + " wrong";
  }
};

// The bar: 13 of 15 right, none wrong. The first run's score is the one that says something; today's, that nothing
// which was mended or right has broken.
TEST(Unseen, IsDiagnosed) {
  std::map<std::string, Score> first, today;
  for (const Answer& answer : answers()) {
    const std::string said = say(kFolder / (answer.log + ".log"));
    first[answer.set].add(answer, answer.first);
    today[answer.set].add(answer, said);
    EXPECT_TRUE(is_right(answer, said)) << answer.log << ": " << said << ", but " << answer.cause;
  }
  ASSERT_FALSE(today.empty());
  for (const auto& [set, score] : today)
    std::printf("set %s: first run %s; today %s\n", set.c_str(), first[set].text().c_str(), score.text().c_str());
}

TEST(Unseen, HasOneAnswerForEachLog) {
  std::set<std::string> rules = {"-", "ok"}, answered, there;
  for (const Rule& rule : all_rules()) rules.insert(std::string(rule.name));
  for (const Answer& answer : answers()) {
    EXPECT_TRUE(answered.insert(answer.log).second) << answer.log;
    EXPECT_FALSE(answer.cause.empty()) << answer.log;
    std::istringstream names(answer.right + " " + answer.first);
    for (std::string name; names >> name;)
      EXPECT_TRUE(rules.count(name.substr(name[0] == '?' ? 1 : 0))) << answer.log << ": " << name;
  }
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".log") there.insert(entry.path().stem().string());
  EXPECT_EQ(answered, there);
}

}  // namespace
}  // namespace plimsoll::doctor
