// Runs `plimsoll doctor` as a user does.
#include "cli/program_fixture.h"
#include "harness/paths.h"

namespace plimsoll::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kLogs = source_dir().string() + "/test/doctor/logs/";

class DoctorTest : public ProgramTest {};

TEST_F(DoctorTest, ExaminesThisMachine) {
  const Outcome outcome = run({"doctor"});
  EXPECT_TRUE(outcome.code == 0 || outcome.code == 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("/dev/shm"));
  const nlohmann::json report = nlohmann::json::parse(run({"doctor", "--json"}).out);
  ASSERT_GE(report.at("checks").size(), 4U);
  bool broken = false;
  for (const nlohmann::json& check : report["checks"]) {
    EXPECT_THAT((std::vector<std::string>{"ok", "warning", "broken"}),
                testing::Contains(check.at("state").get<std::string>()));
    broken |= check["state"] == "broken" && check["needed"] == true;
  }
  EXPECT_EQ(outcome.code, broken ? 5 : 0);
}

TEST_F(DoctorTest, ReadsALogAndQuotesIt) {
  const Outcome outcome = run({"doctor", kLogs + "oom-fragmentation.log"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"4.84 GiB", "reserved by PyTorch but unallocated", "expandable_segments", "(oom-fragmentation;"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  const nlohmann::json report = nlohmann::json::parse(run({"doctor", "--json", kLogs + "label-index.log"}).out);
  EXPECT_EQ(report.at("rule"), "label-index");
  EXPECT_EQ(report.at("evidence").at(0).at("line"), 1);
  EXPECT_THAT(report.at("command").get<std::string>(), HasSubstr("plimsoll check"));
}

// An exception that no rule knows explains itself: its message is quoted whole, with the place where it was raised.
TEST_F(DoctorTest, TellsWhatAnExceptionSays) {
  write_bytes(at("refused.log"),
              "Traceback (most recent call last):\n  File \"pages.py\", line 7, in __getitem__\n    read(page)\n"
              "ValueError: page 3 has more words than boxes\n");
  const Outcome outcome = run({"doctor", path("refused.log")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("message     ValueError: page 3 has more words than boxes"));
  EXPECT_THAT(outcome.out, HasSubstr("where       in the data set: pages.py, line 7, in __getitem__"));
  const nlohmann::json report = nlohmann::json::parse(run({"doctor", "--json", path("refused.log")}).out);
  EXPECT_EQ(report.at("message"), "ValueError: page 3 has more words than boxes");
  EXPECT_EQ(report.at("doubtful"), false);
}

TEST_F(DoctorTest, SaysWhatItDoesNotKnow) {
  write_bytes(at("odd.log"), "step 1\nValueError: full moon\n");
  const Outcome outcome = run({"doctor", path("odd.log")});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(run({"doctor", "--json", path("odd.log")}).code, 7);
  EXPECT_THAT(outcome.out, HasSubstr("not recognised"));
  EXPECT_THAT(outcome.out, HasSubstr("2: ValueError: full moon"));
  write_bytes(at("settings.log"), "retry_on: CUDA out of memory\nValueError: full moon\n");
  const Outcome doubtful = run({"doctor", path("settings.log")});
  EXPECT_EQ(doubtful.code, 0);
  EXPECT_THAT(doubtful.out, HasSubstr("perhaps: the device's memory is full"));
  EXPECT_THAT(doubtful.out, HasSubstr("2: ValueError: full moon"));
  const nlohmann::json report = nlohmann::json::parse(run({"doctor", "--json", path("settings.log")}).out);
  EXPECT_EQ(report.at("doubtful"), true);
  EXPECT_EQ(report.at("errors").at(0).at("line"), 2);
  const std::string oom = "12:00:01 | WARNING | CUDA out of memory, batch skipped\n";
  write_bytes(at("survived.log"), oom + "step 2 loss 0.5\nstep 3 loss 0.4\n");
  const Outcome survived = run({"doctor", path("survived.log")});
  EXPECT_EQ(survived.code, 0);
  EXPECT_THAT(survived.out, HasSubstr("no failure found"));
  EXPECT_THAT(survived.out, HasSubstr("1: the device's memory is full (oom)"));
  const nlohmann::json peace = nlohmann::json::parse(run({"doctor", "--json", path("survived.log")}).out);
  EXPECT_EQ(peace.at("no_failure"), true);
  EXPECT_EQ(peace.at("others").at(0).at("rule"), "oom");
  write_bytes(at("warned.log"), oom + "Traceback (most recent call last):\nValueError: full moon\n");
  const std::string warned = run({"doctor", path("warned.log")}).out;
  EXPECT_THAT(warned, HasSubstr("not recognised"));
  EXPECT_LT(warned.find("full moon"), warned.find("also seen"));
  expect_message(run({"doctor", path("missing.log")}), 3, {"cannot read the log", "missing.log", "No such file"});
  expect_message(run({"doctor", "/dev/zero"}), 3, {"this device is no log", "/dev/zero"});
  EXPECT_EQ(run({"doctor", "/dev/null"}).code, 7);
  expect_message(run({"doctor", "x", "--snapshot", "y"}), 2, {"both a log and a snapshot"});
}

TEST_F(DoctorTest, RefusesAFileThatIsNoLog) {
  write_bytes(at("train.log.gz"), "\x1F\x8B\x08 rest");
  expect_message(run({"doctor", path("train.log.gz")}), 3, {"this file is no log", "a gzip file", "zcat "});
  write_bytes(at("snapshot.pickle"), "\x80\x04 rest");
  expect_message(run({"doctor", path("snapshot.pickle")}), 3, {"a Python pickle", "--snapshot "});
  // Zeros are in the logs of machines that crashed, and commas in the logs of trackers.
  write_bytes(at("zeros.log"), "step 1" + std::string(20, '\0') + "\nValueError: full moon\n");
  EXPECT_EQ(run({"doctor", path("zeros.log")}).code, 7);
  write_bytes(at("table.log"), "step,loss\n1,2.5\n2,2.1\n");
  EXPECT_NE(run({"doctor", path("table.log")}).code, 3);
}

TEST_F(DoctorTest, ReadsASnapshot) {
  const std::string snapshot = source_dir().string() + "/test/doctor/snapshot.pickle";
  const Outcome outcome = run({"doctor", "--snapshot", snapshot});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"peak 568 MiB", "/work/train.py:71 train_one_epoch", "grows from step to step",
                           "30.0 MiB between live blocks"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_EQ(nlohmann::json::parse(run({"doctor", "--json", "--snapshot", snapshot}).out).at("devices").size(), 1U);
  expect_message(run({"doctor", "--snapshot", kLogs + "oom.log"}), 3, {"pickle", "oom.log"});
}

// A log's contents must not reach a terminal as control sequences.
TEST_F(DoctorTest, PrintsHostileLogsHarmlessly) {
  write_bytes(at("hostile.log"),
              "RuntimeError: CUDA out of memory \x1b]0;owned\x07 \x9b"
              "31m \xff\xfe\n");
  const Outcome outcome = run({"doctor", path("hostile.log")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x9b")));
  EXPECT_EQ(nlohmann::json::parse(run({"doctor", "--json", path("hostile.log")}).out).at("rule"), "oom");
}

}  // namespace
}  // namespace plimsoll::test
