// What happens to a run from outside: kills, signals, a full disk, a page that vanishes, standard error that nobody
// reads.
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
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
  // Of a run until something goes wrong, which keeps two checkpoints.
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
    // Each is killed again after it resumed: the directory is met in whatever state the first kill left it.
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
  expect_message(refused, 5, {"the disk has no room", path("disk/run"), "26.0 MiB free", "--save-steps 0"});
  EXPECT_FALSE(fs::exists(disk / "run/metrics.jsonl"));
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(Mishap, AFullDiskIsSaidAndNothingThatWasSavedIsLost) {
  const fs::path disk = at("disk");
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=128m") != 0) GTEST_SKIP() << "nothing can be mounted here";
  Process process(endless("disk/run"), at("full"));
  ASSERT_TRUE(appears(disk / "run/checkpoint-1"));
  std::ofstream others(disk / "others");  // somebody else's, without end
  const std::string block(1 << 20, 'x');
  while (others.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
  }
  expect_message(process.wait(), 5,
                 {"No space left on device", "free there", "--resume-from-checkpoint latest, from update "});
  others.close();
  fs::remove(disk / "others");
  const std::string torn = "run/checkpoint-" + std::to_string(last_checkpoint("disk/run") + 1) + ".tmp";
  EXPECT_FALSE(fs::exists(disk / torn));
  expect_goes_on("disk/run");
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(Mishap, APageThatVanishesEndsTheRunFromItsLastCheckpoint) {
  Process process(endless("run"), at("vanished"));
  ASSERT_TRUE(appears(at("run/checkpoint-1")));
  fs::rename(at("pages/images"), at("pages/elsewhere"));
  expect_message(process.wait(), 3, {"cannot open a page's image", path("pages/images/"), "No such file or directory"});
  fs::rename(at("pages/elsewhere"), at("pages/images"));
  expect_goes_on("run");
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
    const Outcome outcome = run(arguments("run"));
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
    const bool begun = outcome.err.find("error while loading shared libraries") == std::string::npos;
    if (begun) {
      EXPECT_TRUE(outcome.code == 0 || outcome.code == 5) << mib << " MiB: " << outcome.code << outcome.err;
    }
    if (begun && outcome.code == 5) {
      // A thread that finds no room for its stack is one that cannot be started.
      EXPECT_THAT(outcome.err, testing::AnyOf(testing::HasSubstr("memory"), testing::HasSubstr("another thread")))
          << mib << " MiB";
    }
    codes.insert(outcome.code);
  }
  EXPECT_TRUE(codes.contains(5)) << "no limit was too small";
}

}  // namespace
}  // namespace plimsoll
