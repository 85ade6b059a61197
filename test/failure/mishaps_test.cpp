// Tests external events: kills, signals, a full disk, pages that vanish or are damaged, standard error that nobody
// reads.
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "finished_run.h"
#include "harness/paths.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;
using Clock = std::chrono::steady_clock;

bool appears(const fs::path& path) {
  for (int i = 0; i < 6000 && !fs::exists(path); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return fs::exists(path);
}

class Mishap : public FinishedRun {
 protected:
  // True if a running program prints the text within half a minute.
  bool says(const std::string& log, const std::string& text) {
    for (int i = 0; i < 6000; ++i) {
      if (fs::exists(at(log)) && file_bytes(at(log)).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // Arguments for a run that continues until something goes wrong and keeps two checkpoints.
  Arguments endless(const std::string& output) {
    return train_arguments(output, {"--max-steps", "100000", "--save-steps", "1", "--save-total-limit", "2"});
  }
  std::int64_t last_checkpoint(const std::string& output) {
    std::int64_t last = 0;
    for (const auto& entry : fs::directory_iterator(at(output))) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("checkpoint-")) last = std::max<std::int64_t>(last, std::stoll(name.substr(11)));
    }
    return last;
  }
  void expect_goes_on(const std::string& output) {
    const std::int64_t last = last_checkpoint(output);
    const Outcome resumed = run(train_arguments(
        output, {"--max-steps", std::to_string(last + 1), "--save-steps", "1", "--resume-from-checkpoint", "latest"}));
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_THAT(resumed.err,
                testing::HasSubstr("resuming from " + path(output + "/checkpoint-" + std::to_string(last))));
  }
};

TEST_F(Mishap, KilledAtAnyMomentItResumesBitForBit) {
  const auto begin = Clock::now();
  ASSERT_EQ(run(arguments("timed")).code, 0);
  const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
  std::mt19937 draw(1);
  for (int i = 0; i < 4; ++i) {
    // Each run is killed again after it resumed, so it meets the directory in whatever state the first kill left it.
    for (int kill = 0; kill < 2; ++kill) {
      Process process(resuming("run"), at("killed"));
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::uniform_real_distribution<>(0, kill == 0 ? whole : whole / 2)(draw)));
      process.signal(SIGKILL);
      process.wait();
      expect_good_checkpoints("run");
    }
    expect_resumes("run");
    fs::remove_all(at("run"));
  }
}

TEST_F(Mishap, ADiskThatIsTooSmallIsSaidBeforeTheFirstUpdate) {
  const fs::path disk = at("disk");
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=26m") != 0) GTEST_SKIP() << "nothing can be mounted here";
  const Outcome refused = run(arguments("disk/run"));
  expect_message(refused, 5, {"not enough disk space", path("disk/run"), "26.0 MiB free", "--save-steps 0"});
  EXPECT_FALSE(fs::exists(disk / "run/metrics.jsonl"));
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(Mishap, AFullDiskIsSaidAndNothingThatWasSavedIsLost) {
  const fs::path disk = at("disk");
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=128m") != 0) GTEST_SKIP() << "nothing can be mounted here";
  Process process(endless("disk/run"), at("full"));
  ASSERT_TRUE(appears(disk / "run/checkpoint-1"));
  std::ofstream others(disk / "others");  // another user's file, which grows until the disk is full
  const std::string block(1 << 20, 'x');
  while (others.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
  }
  expect_message(process.wait(), 5,
                 {"No space left on device", "free there", "--resume-from-checkpoint latest, from update "});
  others.close();
  fs::remove(disk / "others");
  const std::string torn = "run/.plimsoll/checkpoint-" + std::to_string(last_checkpoint("disk/run") + 1);
  EXPECT_FALSE(fs::exists(disk / torn));
  expect_goes_on("disk/run");
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(Mishap, AFolderOfPagesThatVanishesEndsTheRunFromItsLastCheckpoint) {
  Process process(endless("run"), at("vanished"));
  ASSERT_TRUE(appears(at("run/checkpoint-1")));
  fs::rename(at("pages/images"), at("pages/elsewhere"));
  expect_message(process.wait(), 3,
                 {"no readable page is left", "cannot open a page's image", path("pages/images/"),
                  "No such file or directory", "--resume-from-checkpoint latest"});
  fs::rename(at("pages/elsewhere"), at("pages/images"));
  expect_goes_on("run");
}

// Each signal saves, and its number is the exit code; the resumed run ends with the bits of an undisturbed
// one.
TEST_F(Mishap, EverySignalThatEndsARunSavesIt) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGXCPU}) {
    SCOPED_TRACE(::strsignal(signal));
    Process process(arguments("run"), at("signal"));
    ASSERT_TRUE(says("signal.err", "step 1/3"));
    process.signal(signal);
    // The kernel repeats this signal every second, which must not end the save.
    if (signal == SIGXCPU) process.signal(signal);
    // Schedulers and terminals send several different ones, of which none asks for more than the first.
    if (signal == SIGTERM) {
      ASSERT_TRUE(says("signal.err", "saving the last finished update"));
      for (const int other : {SIGHUP, SIGINT}) process.signal(other);
    }
    const Outcome outcome = process.wait();
    if (outcome.code == 0) {
      ADD_FAILURE() << "the run ended before the signal came";
    } else {
      expect_message(outcome, 128 + signal, {"interrupted by SIG", "--resume-from-checkpoint latest"});
      EXPECT_THAT(outcome.err, testing::HasSubstr("saving the last finished update before ending"));
    }
    expect_resumes("run");
    fs::remove_all(at("run"));
  }
}

TEST_F(Mishap, ASignalDuringAnEvaluationDoesNotWaitForItsEnd) {
  std::vector<nlohmann::json> pages, once = read_pages("validation.jsonl");
  for (int i = 0; i < 60; ++i) {
    nlohmann::json page = once[static_cast<std::size_t>(i) % once.size()];
    page["id"] = std::to_string(i);
    pages.push_back(page);
  }
  write_pages("long.jsonl", pages);
  const auto with_long_evaluation = [&](Arguments all) {
    *(std::find(all.begin(), all.end(), path("pages/validation.jsonl"))) = path("pages/long.jsonl");
    all.insert(all.end(), {"--eval-steps", "1"});
    return all;
  };
  const Outcome whole = run(with_long_evaluation(arguments("long")));
  ASSERT_EQ(whole.code, 0) << whole.err;
  Process process(with_long_evaluation(arguments("run")), at("signal"));
  ASSERT_TRUE(says("signal.err", "step 1/3"));
  process.signal(SIGTERM);
  expect_message(process.wait(), 128 + SIGTERM, {"interrupted by SIGTERM after update 1 of 3"});
  const nlohmann::json state = nlohmann::json::parse(file_bytes(at("run/checkpoint-1/trainer_state.json")));
  EXPECT_TRUE(state["evaluation_due"].get<bool>()) << "the evaluation was finished first";
  const Outcome resumed = run(with_long_evaluation(resuming("run")));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(difference(results_of(at("run")), results_of(at("long"))), "");
}

TEST_F(Mishap, SigUsr1SavesAndTheRunGoesOn) {
  Arguments all = arguments("run");
  *(std::find(all.begin(), all.end(), "--save-steps") + 1) = "3";
  Process process(all, at("signal"));
  for (const char* step : {"step 1/3", "step 2/3"}) {
    ASSERT_TRUE(says("signal.err", step));
    process.signal(SIGUSR1);
  }
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("saving the last finished update; the run continues"));
  EXPECT_THAT(outcome.err,
              testing::AnyOf(testing::HasSubstr("run/checkpoint-1\n"), testing::HasSubstr("run/checkpoint-2\n")));
  expect_results("run");
}

// The signals, one bit each, that one line of a thread's or process's /proc/.../status lists.
std::uint64_t signals_of(const fs::path& task, const std::string& name) {
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1), nullptr, 16);
  }
  ADD_FAILURE() << task << " does not list " << name;
  return 0;
}

// The kernel writes a handler's frame where the stack pointer points, and oneDNN's products for AVX2 point it into the
// heap, so no thread that computes may run a handler: there is none, and only the thread that waits takes the signals.
TEST_F(Mishap, NoSignalIsHandledInAThreadThatComputes) {
  std::uint64_t watched = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGXCPU, SIGUSR1}) watched |= std::uint64_t{1} << (signal - 1);
  Process process(endless("run"), at("signal"));
  ASSERT_TRUE(says("signal.err", "step 1/"));
  const fs::path own = "/proc/" + std::to_string(process.id());
  EXPECT_EQ(signals_of(own, "SigCgt") & watched, 0U);
  int threads = 0, taking = 0;
  for (const auto& thread : fs::directory_iterator(own / "task")) {
    const std::uint64_t blocked = signals_of(thread.path(), "SigBlk") & watched;
    ++threads;
    if (blocked != watched) {
      ++taking;
      EXPECT_EQ(blocked, 0U) << thread.path();
      EXPECT_NE(thread.path().filename(), own.filename()) << "the main thread computes";
    }
  }
  EXPECT_GE(threads, 3);  // the main one, a loader's, and the one that waits
  EXPECT_EQ(taking, 1);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().code, 128 + SIGTERM);
}

// Every picture is decoded before the first update, which reveals faults that its header does not show.
TEST_F(Mishap, ABrokenPictureIsRefusedBeforeTheFirstUpdate) {
  const std::string image = read_pages("train.jsonl")[1]["image"];
  const fs::path picture = at("pages") / image;
  const std::string whole = file_bytes(picture);
  std::string broken = whole;
  broken[whole.size() / 2] = static_cast<char>(broken[whole.size() / 2] ^ 4);
  write_bytes(picture, broken);
  const std::string name = fs::path(image).filename().string();
  expect_message(run(arguments("refused")), 3, {"train.jsonl:2", name, "cannot be decoded"});
  EXPECT_FALSE(fs::exists(at("refused/metrics.jsonl")));

  Arguments unseen = arguments("skipped");
  unseen.push_back("--no-decode-images");
  const Outcome skipped = run(unseen);
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, testing::HasSubstr("a page can no longer be read and is skipped from now on: "));
  EXPECT_THAT(skipped.err, testing::HasSubstr("1 page could not be read and was skipped:"));
  const nlohmann::json summary = nlohmann::json::parse(file_bytes(at("skipped/summary.json")));
  ASSERT_EQ(summary["skipped_pages"].size(), 1U);
  EXPECT_THAT(summary["skipped_pages"][0]["where"].get<std::string>(), testing::HasSubstr("train.jsonl:2"));

  unseen[static_cast<std::size_t>(std::find(unseen.begin(), unseen.end(), path("skipped")) - unseen.begin())] =
      path("stopped");
  unseen.insert(unseen.end(), {"--on-bad-page", "stop"});
  expect_message(run(unseen), 3, {"a page can no longer be read", "train.jsonl:2", "--on-bad-page skip"});
  write_bytes(picture, whole);
  Arguments resumed = unseen;
  resumed.insert(resumed.end(), {"--resume-from-checkpoint", "latest"});
  EXPECT_EQ(run(resumed).code, 0);
  expect_results("stopped");
}

// The page is named when it is met and in the closing lines, and a resumed run continues without it.
TEST_F(Mishap, APageThatIsCutWhileTheRunGoesOnCostsThatPage) {
  Process process(endless("run"), at("cut"));
  ASSERT_TRUE(appears(at("run/checkpoint-1")));
  const std::string image = read_pages("train.jsonl")[2]["image"];
  const std::string whole = file_bytes(at("pages") / image);
  fs::resize_file(at("pages") / image, whole.size() / 2);
  ASSERT_TRUE(says("cut.err", "skipped from now on"));
  const std::int64_t met = last_checkpoint("run");
  ASSERT_TRUE(appears(at("run") / ("checkpoint-" + std::to_string(met + 2))));
  process.signal(SIGTERM);
  expect_message(process.wait(), 128 + SIGTERM, {"interrupted by SIGTERM"});
  const std::int64_t last = last_checkpoint("run");
  Arguments more = train_arguments(
      "run", {"--max-steps", std::to_string(last + 2), "--save-steps", "1", "--resume-from-checkpoint", "latest"});
  const Outcome resumed = run(more);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::HasSubstr("1 page could not be read and was skipped:"));
  EXPECT_THAT(resumed.err, testing::HasSubstr("train.jsonl:3"));
}

// The other pages are written, and the exit code says that one is missing.
TEST_F(Mishap, PredictAndEvalGoOnWithoutAPictureThatCannotBeDecoded) {
  make_model();
  const std::string image = read_pages("train.jsonl")[1]["image"];
  std::string bytes = file_bytes(at("pages") / image);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_bytes(at("pages") / image, bytes);
  const std::string place = path("pages/train.jsonl") + ":2";
  Arguments predict = eval_arguments("pages/train.jsonl");
  predict.front() = "predict";
  predict.insert(predict.end(), {"--output", path("found.jsonl")});
  const Outcome predicted = run(predict);
  EXPECT_EQ(predicted.code, 3) << predicted.err;
  EXPECT_THAT(predicted.err, testing::HasSubstr("1 page could not be read and was skipped:"));
  EXPECT_THAT(predicted.err, testing::HasSubstr(place));
  EXPECT_THAT(predicted.err, testing::HasSubstr("broken png data: "));
  std::vector<std::string> ids, expected;
  std::ifstream found(at("found.jsonl"));
  for (std::string line; std::getline(found, line);) ids.push_back(nlohmann::json::parse(line)["id"]);
  for (const nlohmann::json& page : read_pages("train.jsonl")) expected.push_back(page["id"]);
  expected.erase(expected.begin() + 1);
  EXPECT_EQ(ids, expected) << "every other page, once, in order";

  Arguments eval = eval_arguments("pages/train.jsonl");
  eval.push_back("--json");
  const Outcome evaluated = run(eval);
  EXPECT_EQ(evaluated.code, 3) << evaluated.err;
  const nlohmann::json scores = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(scores["pages"], expected.size());
  EXPECT_THAT(scores["skipped_pages"][0]["where"].get<std::string>(), testing::HasSubstr(place));
}

TEST_F(Mishap, StandardErrorThatTakesNothingChangesNothing) {
  std::string command = program_path().string();
  for (const std::string& argument : arguments("run")) command += " '" + argument + "'";
  EXPECT_EQ(std::system((command + " >/dev/null 2>/dev/full").c_str()), 0);
  expect_results("run");
  const int wrong = std::system((program_path().string() + " train >/dev/null 2>/dev/full").c_str());
  EXPECT_TRUE(WIFEXITED(wrong) && WEXITSTATUS(wrong) == 2) << wrong;
}

TEST_F(Mishap, ALimitOnMemoryIsNoCrash) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer needs more addresses than any limit here leaves";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  std::set<int> codes;
  for (rlim_t mib = 100; mib <= 400; mib += 60) {
    rlimit small = before;
    small.rlim_cur = mib << 20;
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
    fs::remove_all(at("run"));
    const Outcome outcome = run(arguments("run"));
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
    const bool begun = outcome.err.find("error while loading shared libraries") == std::string::npos;
    if (begun) {
      EXPECT_TRUE(outcome.code == 0 || outcome.code == 5) << mib << " MiB: " << outcome.code << outcome.err;
    }
    if (begun && outcome.code == 5) {
      // Without room for its stack a thread cannot be started.
      EXPECT_THAT(outcome.err, testing::AnyOf(testing::HasSubstr("memory"), testing::HasSubstr("another thread")))
          << mib << " MiB";
    }
    codes.insert(outcome.code);
  }
  EXPECT_TRUE(codes.contains(5)) << "no limit was too small";
}

}  // namespace
}  // namespace plimsoll
