// Several processes that mpirun has started, as users start them. Skipped where there is no MPI.
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <regex>
#include <thread>

#include "cli/rank_options.h"
#include "ocr/pdf_programs.h"
#include "ocr/text_reader.h"
#include "program_fixture.h"
#include "support/drawn_text.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;

// mpirun, if it is on the PATH, and the library by which the program speaks to it beside the program.
std::optional<std::string> find_mpirun() {
  if (!fs::exists(program_path().parent_path() / "libplimsoll_mpi.so")) return std::nullopt;
  std::stringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (const fs::path file = fs::path(folder) / "mpirun"; ::access(file.c_str(), X_OK) == 0) return file.string();
  }
  return std::nullopt;
}

// A rank that hears of another one's failure as soon as it listens, or of none.
class ListeningRank final : public Communicator {
 public:
  ListeningRank(int rank, std::string heard) : rank_(rank), heard_(std::move(heard)) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  const std::string& host(int) const override { return host_; }
  void reserve(std::int64_t) override {}
  void poll() override {
    if (!heard_.empty()) throw RankError({.what = heard_}, ExitCode::kData);
  }
  void fail(const Problem& problem, ExitCode) noexcept override { said_ = problem.what; }
  const std::string& said() const { return said_; }

 private:
  void begin_send(std::int64_t, int, std::span<const std::byte>) override {}
  void begin_receive(std::int64_t, int, std::span<std::byte>) override {}
  bool is_done(std::int64_t) const override { return true; }
  void wait_until_done(std::int64_t) override {}

  int rank_;
  std::string heard_, host_ = "here", said_;
};

// A rank may be slower than the others' patience, so each looks first whether the same has been told.
TEST(TellRanks, WhatAnotherRankHasToldIsNotToldAgain) {
  for (const int rank : {0, 1}) {
    for (const bool same : {true, false}) {
      const std::string heard = std::string("rank 1 on here has failed: ") + (same ? "a box" : "a disk");
      auto ranks = std::make_unique<ListeningRank>(rank, heard);
      const ListeningRank& listening = *ranks;
      Invocation invocation;
      invocation.ranks = std::move(ranks);
      EXPECT_EQ(tell_ranks(invocation, {.what = "a box"}, ExitCode::kData), !same);
      EXPECT_EQ(listening.said(), same ? "" : "a box");
    }
    auto ranks = std::make_unique<ListeningRank>(rank, "");
    Invocation invocation;
    invocation.ranks = std::move(ranks);
    EXPECT_TRUE(tell_ranks(invocation, {.what = "a box"}, ExitCode::kData));
  }
}

class Ranks : public ProgramTest {
 protected:
  void SetUp() override {
    mpirun_ = find_mpirun();
    ignore_leaks_of_programs();
    if (!mpirun_) GTEST_SKIP() << "there is no MPI: apt-get install libopenmpi-dev openmpi-bin";
    draw_pages();
  }

  Arguments of_ranks(int count, const Arguments& arguments) const {
    Arguments all = {"--allow-run-as-root", "--oversubscribe",      "--bind-to", "none", "-n",
                     std::to_string(count), program_path().string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  Process start(int count, const Arguments& arguments) const {
    return Process(of_ranks(count, arguments), at("log"), {}, *mpirun_);
  }
  Outcome run_ranks(int count, const Arguments& arguments) const { return start(count, arguments).wait(); }

  // Waits until the run has a checkpoint; false if none comes.
  bool saves(const std::string& run) const {
    for (int i = 0; i < 4000; ++i) {
      std::error_code error;
      for (fs::directory_iterator entry(at(run), error), end; !error && entry != end; entry.increment(error)) {
        if (entry->path().filename().string().starts_with("checkpoint-")) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::optional<std::string> mpirun_;
};

TEST_F(Ranks, EveryStageTrainsTheSameModel) {
  // An update has two pages, so that two of four ranks have none.
  const Arguments common = {"--max-steps", "4", "--save-steps", "2"};
  ASSERT_EQ(run(train_arguments("alone", common)).code, 0);
  for (const int ranks : {2, 4}) {
    std::string model, states;
    for (const char* stage : {"0", "1", "2", "3"}) {
      Arguments more = common;
      more.insert(more.end(), {"--zero-stage", stage});
      const std::string name = std::string("stage") + stage;
      fs::remove_all(at(name));
      const Outcome outcome = run_ranks(ranks, train_arguments(name, more));
      ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
      EXPECT_THAT(outcome.err, testing::HasSubstr(std::to_string(ranks) + " processes, started by mpirun"));
      const std::string its_model = file_bytes(at(name) / "model.safetensors");
      const std::string its_states = file_bytes(at(name) / "checkpoint-4" / "optimizer.safetensors");
      if (model.empty()) model = its_model, states = its_states;
      EXPECT_TRUE(its_model == model) << ranks << " ranks, stage " << stage;
      EXPECT_TRUE(its_states == states) << ranks << " ranks, stage " << stage;
      const std::vector<double> found = losses(name), expected = losses("alone");
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
      const nlohmann::json summary = nlohmann::json::parse(file_bytes(at(name) / "summary.json"));
      EXPECT_EQ(summary["ranks"].size(), static_cast<std::size_t>(ranks));
    }
  }
}

TEST_F(Ranks, ARunResumesOnAnyNumberOfRanks) {
  ASSERT_EQ(run_ranks(2, train_arguments("whole", {"--max-steps", "4", "--save-steps", "2"})).code, 0);
  for (const int ranks : {1, 2, 4}) {
    fs::remove_all(at("again"));
    fs::create_directories(at("again"));
    fs::copy(at("whole") / "checkpoint-2", at("again") / "checkpoint-2", fs::copy_options::recursive);
    Arguments resume =
        train_arguments("again", {"--max-steps", "4", "--save-steps", "2", "--resume-from-checkpoint", "latest"});
    if (ranks > 1) resume.insert(resume.end(), {"--zero-stage", "1"});
    const Outcome outcome = ranks == 1 ? run(resume) : run_ranks(ranks, resume);
    ASSERT_EQ(outcome.code, 0) << ranks << outcome.out << outcome.err;
    const bool same = file_bytes(at("again") / "model.safetensors") == file_bytes(at("whole") / "model.safetensors");
    if (ranks == 2) {
      EXPECT_TRUE(same);
    } else {
      EXPECT_THAT(outcome.err, testing::HasSubstr("ranks: 2 then, " + std::to_string(ranks) + " now"));
    }
  }
}

// A batch that is stated for each rank is the checkpoint's on another number of them, too.
TEST_F(Ranks, AnUpdateKeepsItsPagesOnAnotherNumberOfRanks) {
  const auto arguments = [this](const Arguments& more) {
    Arguments all = train_arguments("run", more);
    *std::ranges::find(all, "--train-batch-size") = "--per-device-train-batch-size";
    return all;
  };
  const Arguments whole = {"--max-steps", "2", "--save-steps", "1"};
  ASSERT_EQ(run_ranks(2, arguments(whole)).code, 0);
  fs::remove_all(at("run/checkpoint-2"));
  Arguments resume = arguments(whole);
  resume.insert(resume.end(), {"--resume-from-checkpoint", path("run/checkpoint-1")});
  const Outcome outcome = run(resume);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("an update keeps its 4 pages, as with 2 processes"));
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("--train-batch-size: ")));
  EXPECT_EQ(nlohmann::json::parse(file_bytes(at("run/plan.json"))).at("train_batch_size"), 4);
}

// The micro-batch of the checkpoint is kept where a rank has as many pages.
TEST_F(Ranks, ARunWithALargeMicroBatchResumesOnMoreRanks) {
  ASSERT_EQ(run(train_arguments("large", {"--max-steps", "2", "--save-steps", "1", "--micro-batch-size", "2"})).code,
            0);
  fs::create_directories(at("again"));
  fs::copy(at("large") / "checkpoint-1", at("again") / "checkpoint-1", fs::copy_options::recursive);
  const Outcome outcome =
      run_ranks(2, train_arguments("again", {"--max-steps", "2", "--resume-from-checkpoint", "latest"}));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

TEST_F(Ranks, EvaluatesAsOneProcessDoes) {
  const Arguments more = {"--max-steps", "2", "--eval-data", path("pages/train.jsonl"), "--eval-steps", "1"};
  ASSERT_EQ(run_ranks(2, train_arguments("two", more)).code, 0);
  const nlohmann::json said = nlohmann::json::parse(file_bytes(at("two") / "summary.json"))["evaluation"];
  const Outcome alone =
      run({"eval", "--model", path("two"), "--data", path("pages/train.jsonl"), "--json", "--threads", "1"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const nlohmann::json scores = nlohmann::json::parse(alone.out);
  for (const char* key : {"f1", "support", "confusion", "per_label", "pages"}) EXPECT_EQ(said[key], scores[key]) << key;
  EXPECT_NEAR(said["loss"].get<double>(), scores["loss"].get<double>(), 1e-6);
}

TEST_F(Ranks, PredictsTheSameBytesAsOneProcess) {
  make_model();
  const Arguments predict = {"predict",
                             "--model",
                             path("model"),
                             "--data",
                             path("pages/train.jsonl"),
                             "--threads",
                             "1",
                             "--per-device-eval-batch-size",
                             "1",
                             "--return-all-scores",
                             "--output"};
  Arguments alone = predict;
  alone.push_back(path("alone.jsonl"));
  ASSERT_EQ(run(alone).code, 0);
  for (const int ranks : {2, 3}) {
    Arguments together = predict;
    together.push_back(path("together.jsonl"));
    const Outcome outcome = run_ranks(ranks, together);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(file_bytes(at("together.jsonl")) == file_bytes(at("alone.jsonl"))) << ranks;
  }
}

TEST_F(Ranks, ABudgetTooSmallIsRefusedByAll) {
  Arguments arguments = train_arguments("small", {"--max-steps", "2"});
  *std::ranges::find(arguments, "1GiB") = "45MiB";
  const Outcome outcome = run_ranks(2, arguments);
  EXPECT_EQ(outcome.code, 4) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("the run does not fit the memory budget"));
  // It is said once, by rank 0.
  const std::size_t first = outcome.err.find("error: the run");
  EXPECT_EQ(outcome.err.find("error: the run", first + 1), std::string::npos) << outcome.err;

  arguments.push_back("--json");
  const std::string refused = run_ranks(2, arguments).out;
  const std::string_view kKey = "\"smallest_budget_bytes\":";
  const std::size_t at = refused.find(kKey);
  ASSERT_NE(at, std::string::npos) << refused;
  *std::ranges::find(arguments, "45MiB") = std::to_string(std::stoll(refused.substr(at + kKey.size())));
  const Outcome named = run_ranks(2, arguments);
  EXPECT_EQ(named.code, 0) << named.out << named.err;
}

TEST_F(Ranks, BadDataIsToldOnce) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages[1]["boxes"][0] = {1, 2, 99999, 4};
  write_pages("train.jsonl", pages);
  const Outcome outcome = run_ranks(2, train_arguments("bad", {"--max-steps", "2"}));
  EXPECT_EQ(outcome.code, 3) << outcome.out << outcome.err;
  const std::size_t first = outcome.err.find("error: ");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << outcome.err;
}

// The op is found on all ranks together, as what one of them meets reaches the others through sums.
TEST_F(Ranks, ANumberThatIsNotFiniteIsNamedOnce) {
  for (const char* stage : {"0", "3"}) {
    for (const bool checked : {false, true}) {
      const std::string name = std::string("nan") + stage + (checked ? "checked" : "");
      Arguments arguments = train_arguments(name, {"--max-steps", "4", "--warmup-ratio", "0", "--zero-stage", stage});
      *(std::ranges::find(arguments, "--learning-rate") + 1) = "1e30";
      if (checked) arguments.push_back("--detect-anomaly");
      const Outcome outcome = run_ranks(2, arguments);
      expect_message({.code = outcome.code, .out = outcome.out, .err = outcome.err.substr(outcome.err.find("error: "))},
                     6, {"update 2", " on rank "});
      const std::size_t first = outcome.err.find("error: ");
      EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << outcome.err;
    }
  }
}

// Ranks share every update: with other data, options or weights each would train another model.
TEST_F(Ranks, WhatDiffersBetweenRanksIsRefused) {
  make_model();
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages.pop_back();
  write_pages("fewer.jsonl", pages);
  const auto two = [this](const Arguments& mine, const Arguments& theirs) {
    Arguments all = of_ranks(1, mine);
    all.push_back(":");
    const Arguments other = of_ranks(1, theirs);
    all.insert(all.end(), std::ranges::find(other, "-n"), other.end());
    return Process(all, at("log"), {}, *mpirun_).wait();
  };
  const auto refused = [&](const Arguments& mine, const Arguments& theirs, int code,
                           const std::vector<std::string>& says) {
    const Outcome outcome = two(mine, theirs);
    expect_message({.code = outcome.code, .out = outcome.out, .err = outcome.err.substr(outcome.err.find("error: "))},
                   code, says);
    EXPECT_EQ(outcome.err.rfind("error: "), outcome.err.find("error: ")) << outcome.err;
  };
  const Arguments usual = train_arguments("run", {"--max-steps", "2"});
  Arguments more = usual, fewer = usual, own = usual, elsewhere = usual;
  more.insert(more.end(), {"--warmup-steps", "1"});
  refused(usual, more, 2, {"different options", "--warmup-steps: 1, and 0 on rank 0"});
  Arguments evaluates = usual;
  evaluates.insert(evaluates.end(), {"--eval-data", path("pages/validation.jsonl")});
  refused(evaluates, usual, 2, {"--eval-data: not given, and given on rank 0"});
  refused(usual, {"check", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl")}, 2,
          {"plimsoll check, and plimsoll train on rank 0"});
  const auto set = [](Arguments& arguments, const char* option, const std::string& value) {
    *(std::ranges::find(arguments, option) + 1) = value;
  };
  set(fewer, "--data", path("pages/fewer.jsonl"));
  refused(usual, fewer, 3, {"rank 1 has another data set than rank 0", "3 pages in 3 windows on rank 1"});
  set(own, "--model", path("model"));
  refused(usual, own, 3, {"rank 1 has another model than rank 0", "other weights"});
  Arguments taught = usual, other_teacher = usual;
  ASSERT_EQ(run({"init", "--model", path("model"), "--num-hidden-layers", "1", "--output-dir", path("shallow")}).code,
            0);
  taught.insert(taught.end(), {"--zero-stage", "2", "--distil-from", path("model")});
  other_teacher.insert(other_teacher.end(), {"--zero-stage", "2", "--distil-from", path("shallow")});
  refused(taught, other_teacher, 3, {"rank 1 has another teacher than rank 0"});
  Arguments alone = usual;
  set(alone, "--output-dir", path("of-one-machine"));
  const Outcome apart = two(usual, alone);
  EXPECT_EQ(apart.code, 5) << apart.err;
  EXPECT_THAT(apart.err, testing::HasSubstr("is not found on another rank"));
  // Where the same files lie does not matter.
  write_pages("elsewhere.jsonl", read_pages("train.jsonl"));
  set(elsewhere, "--data", path("pages/elsewhere.jsonl"));
  elsewhere.insert(elsewhere.end(), {"--warmup-ratio", "0.0"});  // is 0, the default
  const Outcome same = two(usual, elsewhere);
  EXPECT_EQ(same.code, 0) << same.err;
  // Two ranks that go on from two checkpoints would train two models.
  Arguments later = train_arguments("run", {"--max-steps", "4", "--save-steps", "1", "--resume-from-checkpoint"});
  Arguments latest = later;
  later.push_back(path("run/checkpoint-1")), latest.push_back("latest");
  ASSERT_EQ(two(train_arguments("run", {"--max-steps", "2", "--save-steps", "1", "--overwrite-output-dir"}),
                train_arguments("run", {"--max-steps", "2", "--save-steps", "1", "--overwrite-output-dir"}))
                .code,
            0);
  refused(latest, later, 3, {"another checkpoint", "update 1 on rank 1, update 2 on rank 0"});
}

TEST_F(Ranks, LookingAtEveryOpChangesNoBit) {
  const Arguments more = {"--max-steps", "2", "--zero-stage", "3"};
  ASSERT_EQ(run_ranks(2, train_arguments("quick", more)).code, 0);
  Arguments checked = more;
  checked.push_back("--detect-anomaly");
  const Outcome outcome = run_ranks(2, train_arguments("checked", checked));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(file_bytes(at("checked") / "model.safetensors") == file_bytes(at("quick") / "model.safetensors"));
}

// The others end with it, and the last checkpoint is whole.
TEST_F(Ranks, ARankThatIsKilledEndsTheRun) {
  Process process =
      start(2, train_arguments("killed", {"--max-steps", "20000", "--save-steps", "2", "--save-total-limit", "2"}));
  ASSERT_TRUE(saves("killed"));
  // A rank: a process below mpirun that runs the program.
  pid_t victim = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    std::error_code error;
    if (fs::read_symlink(entry.path() / "exe", error) != fs::canonical(program_path()) || error) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t behind_name = text.rfind(") ");
    if (behind_name == std::string::npos) continue;
    const int parent = std::atoi(text.c_str() + behind_name + std::string(") S ").size());
    if (parent == process.id()) victim = std::atoi(text.c_str());
  }
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = process.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_NE(outcome.code, 0);
  const Outcome again = run_ranks(
      2, train_arguments("killed", {"--max-steps", "1", "--save-steps", "0", "--resume-from-checkpoint", "latest"}));
  EXPECT_EQ(again.code, 0) << again.out << again.err;
}

TEST_F(Ranks, ASignalToTheLauncherSaves) {
  Process process = start(2, train_arguments("saves", {"--max-steps", "100000", "--save-steps", "0"}));
  for (int i = 0; i < 6000 && !fs::exists(at("saves") / "plan.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  process.signal(SIGUSR1);
  EXPECT_TRUE(saves("saves"));
  process.signal(SIGTERM);
  process.wait();
}

bool reads_pdf() {
  try {
    find_pdf_programs(PdfReader::kAuto);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Files of a folder by their names, with their bytes.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = file_bytes(entry.path());
  }
  return files;
}

// The text without what differs between two runs of one process too.
std::string without_times(const std::string& text) {
  return std::regex_replace(
      text,
      std::regex(
          "in [0-9.]+ s|[0-9]+ pages/s|\"pages_per_second\": [0-9.e+]+|peak memory: .*|\"[a-z_]+_bytes\": [0-9]+|"
          "\"seconds\": [0-9.e-]+"),
      "-");
}

TEST_F(Ranks, PredictPrintsAndDrawsAsOneProcess) {
  make_model();
  const auto arguments = [&](const std::string& folder) {
    return Arguments{"predict",    "--model",   path("model"), "--data",     path("pages/train.jsonl"), "--draw",
                     path(folder), "--threads", "1",           "--draw-pdf", path(folder + ".pdf")};
  };
  const Outcome alone = run(arguments("alone"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome together = run_ranks(2, arguments("together"));
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_TRUE(together.out == alone.out);
  EXPECT_TRUE(files_in(at("together")) == files_in(at("alone")));
  EXPECT_EQ(fs::file_size(at("together.pdf")), fs::file_size(at("alone.pdf")));
}

TEST_F(Ranks, EvalPrintsAndDrawsAsOneProcess) {
  make_model();
  for (const bool json : {false, true}) {
    const auto arguments = [&](const std::string& folder) {
      Arguments all = eval_arguments("pages/train.jsonl");
      all.insert(all.end(), {"--worst", "3", "--draw", path(folder)});
      if (json) all.emplace_back("--json");
      return all;
    };
    const Outcome alone = run(arguments("alone")), together = run_ranks(2, arguments("together"));
    ASSERT_EQ(together.code, 0) << together.err;
    EXPECT_EQ(without_times(together.out), without_times(alone.out));
    EXPECT_TRUE(files_in(at("together")) == files_in(at("alone")));
  }
}

TEST_F(Ranks, CheckReportsAsOneProcess) {
  // More than a block of 16 pages for each rank, with faults on some, and a page twice.
  std::vector<nlohmann::json> pages, six = read_pages("train.jsonl");
  for (int i = 0; i < 75; ++i) {
    pages.push_back(six[static_cast<std::size_t>(i) % six.size()]);
    pages.back()["id"] = i == 70 ? "3" : std::to_string(i);
    if (i % 7 == 0) pages.back()["boxes"][0] = {1, 2, 99999, 4};
    if (i % 20 == 19) pages.back()["image"] = "images/absent.png";
  }
  write_pages("train.jsonl", pages);
  for (const Arguments& more : std::vector<Arguments>{{}, {"--json"}, {"--decode-images", "--places", "2"}}) {
    Arguments arguments = {"check", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome alone = run(arguments);
    EXPECT_EQ(alone.code, 3) << alone.out;
    for (const int ranks : {2, 3}) {
      const Outcome together = run_ranks(ranks, arguments);
      EXPECT_EQ(together.code, 3) << together.out << together.err;
      EXPECT_EQ(without_times(together.out), without_times(alone.out)) << ranks;
    }
  }
}

TEST_F(Ranks, CheckWritesTheSameFixedCopy) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages[1]["boxes"][0] = {60, 40, 20, 44};
  write_pages("train.jsonl", pages);
  const auto fix = [&](const std::string& output) {
    return Arguments{"check", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--fix", path(output)};
  };
  const Outcome alone = run(fix("alone.jsonl")), together = run_ranks(2, fix("together.jsonl"));
  EXPECT_EQ(together.code, alone.code) << together.err;
  EXPECT_TRUE(file_bytes(at("together.jsonl")) == file_bytes(at("alone.jsonl")));
  EXPECT_TRUE(file_bytes(at("together.jsonl.changes.jsonl")) == file_bytes(at("alone.jsonl.changes.jsonl")));
}

TEST_F(Ranks, SynthDrawsTheSameFiles) {
  for (const char* layout : {"receipts", "forms"}) {
    const auto synth = [&](const std::string& output, const char* count) {
      return Arguments{"synth", "--output", path(output), "--layout", layout, "--count", count};
    };
    // Twice, over fewer pages the second time.
    for (const char* count : {"9", "7"}) {
      const Outcome alone = run(synth("alone", count));
      ASSERT_EQ(alone.code, 0) << alone.err;
      const Outcome together = run_ranks(2, synth("together", count));
      ASSERT_EQ(together.code, 0) << together.err;
      EXPECT_EQ(std::regex_replace(together.out, std::regex("together"), "alone"), alone.out);
      EXPECT_TRUE(files_in(at("together")) == files_in(at("alone"))) << layout << " " << count;
    }
    fs::remove_all(at("alone"));
    fs::remove_all(at("together"));
  }
}

// Only rank 1 cannot write its picture: all end, with its exit code, and no list names a picture that is missing.
TEST_F(Ranks, ARankThatFailsEndsAll) {
  fs::create_directories(at("drawn/images/00003.png"));
  write_bytes(at("drawn/.made-by-plimsoll-synth"), "");
  const Outcome outcome = run_ranks(2, {"synth", "--output", path("drawn"), "--count", "6"});
  EXPECT_EQ(outcome.code, 5) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("rank 1 on"));
  EXPECT_THAT(outcome.err, testing::HasSubstr("00003.png"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(fs::exists(at("drawn/train.jsonl")));
}

TEST_F(Ranks, ScansAreReadAsByOneProcess) {
  try {
    open_text_reader({});
  } catch (const Error& error) {
    GTEST_SKIP() << "pages cannot be read here: " << error.what();
  }
  make_model();
  fs::create_directories(at("scans"));
  draw_text(at("scans/a.png"), {"Greenburg Services", "TOTAL 12.50"});
  write_bytes(at("scans/b.png"), "no picture");
  draw_text(at("scans/c.png"), {"Invoice 4711"});
  // Pages with pictures that have to be written.
  if (!reads_pdf()) {
    std::cerr << "without pages of a PDF file: nothing here reads them\n";
  } else {
    draw_pdf(at("scans/d.pdf"), {{"page one"}, {"page two"}, {"page three"}});
  }
  const Arguments ocr = {"ocr", "--input", path("scans"), "--output"};
  Arguments alone = ocr, together = ocr;
  alone.push_back(path("alone.jsonl"));
  together.push_back(path("together.jsonl"));
  const Outcome one = run(alone), two = run_ranks(2, together);
  EXPECT_EQ(one.code, 3) << one.err;
  EXPECT_EQ(two.code, 3) << two.err;
  EXPECT_EQ(std::regex_replace(two.out, std::regex("together"), "alone"), one.out);
  EXPECT_EQ(std::regex_replace(file_bytes(at("together.jsonl")), std::regex("together"), "alone"),
            file_bytes(at("alone.jsonl")));
  if (fs::exists(at("alone.jsonl.images"))) {
    EXPECT_TRUE(files_in(at("together.jsonl.images")) == files_in(at("alone.jsonl.images")));
  }
  // To standard output, where pictures lie in a folder of the run.
  const Arguments predict = {"predict", "--model", path("model"), "--input", path("scans"), "--threads", "1"};
  const Outcome said_alone = run(predict), said_together = run_ranks(2, predict);
  EXPECT_EQ(said_together.code, 3) << said_together.err;
  EXPECT_TRUE(said_together.out == said_alone.out) << said_together.out << said_alone.out;
}

TEST_F(Ranks, AShardIsASingleProcess) {
  make_model();
  const Outcome outcome = run_ranks(2, {"predict", "--model", path("model"), "--data", path("pages/train.jsonl"),
                                        "--output", path("found.jsonl"), "--shard", "1/2"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("processes of a launcher share the pages of one output"));
}

}  // namespace
}  // namespace plimsoll
