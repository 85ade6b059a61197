// A failing system call or allocation ends a run cleanly: a documented exit code, one message, good checkpoints, and a
// directory that resumes as if nothing had happened. bench/inject_failures.py tries every place; this tests some of
// each kind.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "finished_run.h"

namespace plimsoll {
namespace {

using namespace test;

#ifdef PLIMSOLL_INJECT_LIBRARY

constexpr const char* kLibraries[] = {"libdnnl", "liblept", "libgomp"};

struct Event {
  std::string number, call, bytes, path;
};

class Injected : public FinishedRun {
 protected:
  Outcome run_with(const std::string& output, const std::string& what, const std::string& place,
                   const std::string& how) {
    return run_with(arguments(output), what, place, how);
  }
  Outcome run_with(const Arguments& command, const std::string& what, const std::string& place,
                   const std::string& how) {
    // Keeps the program from restarting itself, because nothing would fail in the second process.
    ::setenv("GOMP_SPINCOUNT", "2000", 1);
    const std::map<std::string, std::string> environment = {{"LD_PRELOAD", PLIMSOLL_INJECT_LIBRARY},
                                                            {"PLIMSOLL_INJECT", what},
                                                            {"PLIMSOLL_INJECT_LOG", path("events")},
                                                            {"PLIMSOLL_INJECT_AT", place},
                                                            {"PLIMSOLL_INJECT_HOW", how}};
    fs::remove(at("events"));
    for (const auto& [name, value] : environment) {
      if (!value.empty()) ::setenv(name.c_str(), value.c_str(), 1);
    }
    Outcome outcome = run(command);
    for (const auto& [name, value] : environment) ::unsetenv(name.c_str());
    return outcome;
  }
  std::vector<Event> events(const std::string& what) { return events(what, arguments("recorded")); }
  std::vector<Event> events(const std::string& what, const Arguments& command) {
    EXPECT_EQ(run_with(command, what, "", "").code, 0);
    std::vector<Event> events;
    std::istringstream lines(file_bytes(at("events")));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string kind;
      Event event;
      if (what == "calls") {
        words >> kind >> event.number >> event.call >> event.bytes >> event.path;
      } else {
        words >> kind >> event.number;
        // How libraries react to failures of their own allocations is not tested here (EXCEPTIONS of
        // bench/inject_failures.py).
        const bool foreign = std::ranges::any_of(
            kLibraries, [&](const char* library) { return line.find(library) != std::string::npos; });
        if (foreign) continue;
      }
      events.push_back(event);
    }
    return events;
  }
  bool was_reached() const { return file_bytes(at("events")).find("failed") != std::string::npos; }
  void expect_clean_end(const Outcome& outcome, const std::vector<std::string>& parts) {
    ASSERT_TRUE(was_reached()) << "what should fail was not reached";
    expect_good_checkpoints("run");
    if (outcome.code == 0) return expect_results("run");
    EXPECT_TRUE(outcome.code >= 2 && outcome.code <= 6) << outcome.code;
    expect_message(outcome, outcome.code, parts);
    expect_resumes("run");
  }
};

TEST_F(Injected, AFailingCallOfEachKind) {
  std::map<std::string, std::vector<Event>> kinds;
  for (const Event& event : events("calls")) kinds[event.call].push_back(event);
  EXPECT_TRUE(kinds.contains("write") && kinds.contains("fsync") && kinds.contains("rename"));
  for (const auto& [call, places] : kinds) {
    // One place is in the middle of a checkpoint, one near the end of the run.
    for (const Event& event : {places[places.size() / 2], places[places.size() - 1]}) {
      SCOPED_TRACE(event.call + " " + event.path);
      const bool thread = call == "pthread_create";
      const int error = thread ? EAGAIN : event.number == places.back().number ? EIO : ENOSPC;
      fs::remove_all(at("run"));
      expect_clean_end(run_with("run", "calls", event.number, std::to_string(error)),
                       {thread ? "thread" : std::strerror(error)});
    }
    if (call != "write" && call != "writev") continue;
    fs::remove_all(at("run"));
    EXPECT_EQ(run_with("run", "calls", places[places.size() / 2].number, "short").code, 0)
        << "half a write is no failure";
    expect_results("run");
  }
}

// A finished run continues, and its model is replaced by the later one. Wherever the process is killed, eval sees one
// of the two completely, and the files beside config.json, for other programs, belong to one of them.
TEST_F(Injected, KilledAtAnyCallOfTheLastSaveOneModelStands) {
  const auto longer = [this](const std::string& output) {
    Arguments all = resuming(output);
    *(std::find(all.begin(), all.end(), "--max-steps") + 1) = "4";
    return all;
  };
  const auto evaluated = [this](const std::string& model) {
    const Outcome outcome = run({"eval", "--model", path(model), "--data", path("pages/validation.jsonl"), "--budget",
                                 "1GiB", "--threads", "1", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? nlohmann::json::parse(outcome.out).at("loss").get<double>() : 0.0;
  };
  const auto model_of = [this](const std::string& model) {
    return file_bytes(at(model + "/model.safetensors")) + file_bytes(at(model + "/checksums.json"));
  };
  fs::copy(at("whole"), at("longer"), fs::copy_options::recursive);
  std::vector<Event> last_save = events("calls", longer("longer"));
  last_save.erase(last_save.begin(), std::ranges::find_if(last_save, [](const Event& event) {
                    return event.path.find(".plimsoll/model") != std::string::npos;
                  }));
  ASSERT_GT(last_save.size(), 30U);
  const double before = evaluated("whole"), after = evaluated("longer");
  ASSERT_NE(before, after);
  const std::string models[] = {model_of("whole"), model_of("longer")};
  bool seen_before = false, seen_after = false;
  for (std::size_t i = 0; i < last_save.size(); i += 1 + last_save.size() / 24) {
    SCOPED_TRACE(last_save[i].call + " " + last_save[i].path);
    fs::remove_all(at("run"));
    fs::copy(at("whole"), at("run"), fs::copy_options::recursive);
    run_with(longer("run"), "calls", last_save[i].number, "kill");
    ASSERT_TRUE(was_reached());
    const double found = evaluated("run");
    EXPECT_TRUE(found == before || found == after) << found;
    seen_before |= found == before;
    seen_after |= found == after;
    if (fs::exists(at("run/config.json"))) {
      const std::string model = model_of("run");
      EXPECT_TRUE(model == models[0] || model == models[1]) << "a mixture";
    }
    EXPECT_EQ(run(longer("run")).code, 0);
    EXPECT_EQ(evaluated("run"), after);
    EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
    for (const auto& [name, bytes] : files_below(at("run"))) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  }
  EXPECT_TRUE(seen_before && seen_after);
}

// The events may be on a disk of their own.
TEST_F(Injected, AFullDiskUnderTheEventsCostsNoRun) {
  const auto logging = [this](const std::string& output) {
    Arguments all = arguments(output);
    all.insert(all.end(), {"--events", path("run-events.jsonl")});
    return all;
  };
  std::vector<Event> writes = events("calls", logging("recorded-events"));
  std::erase_if(writes, [](const Event& event) {
    return event.call != "writev" || event.path.find("run-events.jsonl") == std::string::npos;
  });
  ASSERT_GT(writes.size(), 3U);
  fs::remove_all(at("run"));
  const Outcome outcome = run_with(logging("run"), "calls", writes[writes.size() / 2].number, std::to_string(ENOSPC));
  ASSERT_TRUE(was_reached());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("no more events are written to " + path("run-events.jsonl")));
  expect_results("run");
}

TEST_F(Injected, AFailingAllocation) {
  const std::vector<Event> stacks = events("allocations");
  ASSERT_GT(stacks.size(), 5000U);
  constexpr std::size_t kTried = 12;
  for (std::size_t i = 0; i < kTried; ++i) {
    // Some stacks only occur with certain thread schedules; then the next one is used.
    std::size_t at_stack = (2 * i + 1) * stacks.size() / (2 * kTried);
    const auto attempt = [&](std::size_t stack) {
      fs::remove_all(at("run"));
      return run_with("run", "allocations", stacks[stack].number, i % 3 == 2 ? "on" : "once");
    };
    Outcome outcome = attempt(at_stack);
    for (int more = 0; more < 8 && !was_reached(); ++more) outcome = attempt(++at_stack);
    SCOPED_TRACE("stack " + stacks[at_stack].number);
    const bool thread = outcome.err.find("start another thread") != std::string::npos;  // needed to start a thread
    expect_clean_end(outcome, {thread ? "thread" : "memory"});
  }
}

#else

TEST(Injected, NeedsABuildWithoutSanitizers) { GTEST_SKIP() << "a sanitizer stands before the C library itself"; }

#endif

}  // namespace
}  // namespace plimsoll
