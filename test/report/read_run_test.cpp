// A run's directory is read as data: what is missing or damaged is said, and costs no more than itself.
#include "report/read_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "base/error.h"
#include "run_files.h"

namespace plimsoll::report {
namespace {

using test::ScratchFolder;
using testing::Contains;
using testing::HasSubstr;

TEST(ReadRun, ReadsAWholeRun) {
  const ScratchFolder folder;
  test::write_run(folder, "run");
  const RunFacts run = read_run(folder / "run");
  EXPECT_TRUE(run.notes.empty()) << testing::PrintToString(run.notes);
  EXPECT_EQ(run.name, "run");
  EXPECT_TRUE(run.finished);
  ASSERT_TRUE(run.arena);
  EXPECT_EQ(run.arena->persistent.size(), 2U);
  ASSERT_EQ(run.arena->programs.size(), 1U);
  EXPECT_EQ(run.arena->programs[0].tensors[1].lever, "recomputed");
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[0].loss, 2.5);
  EXPECT_TRUE(std::isnan(run.steps[1].gradient_norm));
  ASSERT_EQ(run.evaluations.size(), 1U);
  EXPECT_EQ(run.evaluations[0].metrics.size(), 3U);
  EXPECT_EQ(run.evaluations[0].confusion[1][1], 4U);
  ASSERT_EQ(run.findings.size(), 1U);
  EXPECT_EQ(run.findings[0].places.at(0), "train.jsonl:4: [0, 0, 1200, 10]");
  ASSERT_EQ(run.worst.size(), 2U);
  EXPECT_EQ(run.worst[0].id, "p2") << "the highest loss comes first";
}

TEST(ReadRun, RefusesWhatIsNoRun) {
  const ScratchFolder folder;
  folder.write("file", "text");
  folder.make("empty");
  for (const char* name : {"file", "empty", "nothing"}) {
    EXPECT_THROW(read_run(folder / name), DataError) << name;
  }
}

TEST(ReadRun, SaysWhatIsMissing) {
  const ScratchFolder folder;
  folder.write("run/metrics.jsonl", test::kMetrics);
  const RunFacts run = read_run(folder / "run");
  EXPECT_FALSE(run.finished);
  EXPECT_EQ(run.steps.size(), 2U);
  EXPECT_THAT(run.notes, Contains(HasSubstr("args.json is missing")));
  EXPECT_THAT(run.notes, Contains(HasSubstr("plan.json is missing")));
  EXPECT_THAT(run.notes, Contains(HasSubstr("arena.json is missing")));
}

// Each file in turn is cut at every eighth byte, or holds something else; the others are read all the same.
TEST(ReadRun, SurvivesDamagedFiles) {
  const ScratchFolder folder;
  const std::map<std::string, std::string> files = {
      {"args.json", test::kArgs},       {"plan.json", test::kPlan},         {"arena.json", test::kArena},
      {"summary.json", test::kSummary}, {"findings.json", test::kFindings}, {"worst.json", test::kWorst}};
  test::write_run(folder, "run");
  for (const auto& [name, text] : files) {
    std::vector<std::string> damaged = {"", "[]", "null", "{}", "\xFF\xFE", std::string(5000, '['), R"({"pages": 3})"};
    for (std::size_t size = 0; size < text.size(); size += 8) damaged.push_back(text.substr(0, size));
    for (const std::string& bytes : damaged) {
      folder.write("run/" + name, bytes);
      const RunFacts run = read_run(folder / "run");
      EXPECT_EQ(run.steps.size(), 2U) << name;
      EXPECT_LE(run.notes.size(), 2U) << name;
    }
    folder.write("run/" + name, text);
  }
}

TEST(ReadRun, RefusesAMapThatMakesNoSense) {
  const std::string good = test::kArena;
  EXPECT_NO_THROW(read_arena(good, "test"));
  const std::pair<const char*, const char*> changes[] = {
      {"1024,0,3", "1024,3,0"},           // ends before it begins
      {"1024,0,3", "1024,0"},             // lacks a field
      {"1024,0,3", "-5,0,3"},             // a negative size
      {"2048,512,0,2", "2048,512,9,12"},  // lives behind the last node
      {"0,512],", "0,99999999999999999999],"},
      {"\"arena_bytes\":3072", "\"arena_bytes\":\"many\""}};
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string(from).size(), to);
    EXPECT_THROW(read_arena(bad, "test"), DataError) << to;
  }
}

TEST(ReadRun, LeavesOutLinesThatCannotBeRead) {
  const ScratchFolder folder;
  test::write_run(folder, "run");
  std::string text = test::kMetrics;
  text += "{\"step\": 30, \"loss\"\n";         // torn
  text += std::string(6'000'000, 'x') + "\n";  // longer than any line
  text += std::string(200, '[') + "\n\n";      // too deep; empty
  text += R"({"step": "many", "loss": 1})"
          "\n";  // no number
  text += R"({"step": 40, "loss": 1.25, "resident_bytes": "x"})"
          "\n";  // one value is none
  folder.write("run/metrics.jsonl", text);
  const RunFacts run = read_run(folder / "run");
  ASSERT_EQ(run.steps.size(), 3U);
  EXPECT_EQ(run.steps[2].loss, 1.25);
  EXPECT_TRUE(std::isnan(run.steps[2].resident_bytes));
  EXPECT_THAT(run.notes, Contains(HasSubstr("5 lines cannot be read")));
}

// Nobody writes to the pipes, and nobody waits for it.
TEST(ReadRun, WaitsForNoPipe) {
  const ScratchFolder folder;
  test::write_run(folder, "run");
  for (const char* name : {"plan.json", "arena.json", "metrics.jsonl", "worst.json", "findings.json"}) {
    std::filesystem::remove(folder / "run" / name);
    ASSERT_EQ(::mkfifo((folder / "run" / name).c_str(), 0600), 0);
  }
  const RunFacts run = read_run(folder / "run");
  EXPECT_TRUE(run.steps.empty());
  EXPECT_FALSE(run.arena);
}

TEST(ReadRun, ThinsALongRun) {
  const ScratchFolder folder;
  std::string text;
  for (int step = 1; step <= 5000; ++step) {
    text += "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(step % 2) +
            ", \"resident_bytes\": " + std::to_string(step) + "}\n";
    text += "{\"step\": " + std::to_string(step) + ", \"eval_f1\": 0.5}\n";
  }
  folder.write("run/metrics.jsonl", text);
  const RunFacts run = read_run(folder / "run");
  EXPECT_LE(run.steps.size(), 1000U);
  EXPECT_GE(run.steps.size(), 400U);
  EXPECT_EQ(run.lines_per_step, 8U);
  EXPECT_EQ(run.steps.back().step, 5000);
  EXPECT_EQ(run.steps.front().loss, 0.5) << "a mean of as many zeros as ones";
  EXPECT_EQ(run.steps.front().resident_bytes, run.steps.front().step) << "the most of its lines";
  EXPECT_LE(run.evaluations.size(), 400U);
  EXPECT_EQ(run.evaluations.back().step, 5000) << "the last one stays";
}

}  // namespace
}  // namespace plimsoll::report
