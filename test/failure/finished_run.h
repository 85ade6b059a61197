// Compares a run's files byte for byte with those of an undisturbed run. These tests are the short forms of
// bench/kill_anywhere.py and bench/inject_failures.py.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "cli/program_fixture.h"

namespace plimsoll::test {

// Returns the name of each file below a directory, and its bytes.
inline std::map<std::string, std::string> files_below(const fs::path& directory) {
  std::map<std::string, std::string> files;
  if (!fs::exists(directory)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), directory).string()] = file_bytes(entry.path());
  }
  return files;
}

// Returns a finished run's files without the values that always differ: times and memory.
inline std::map<std::string, std::string> results_of(const fs::path& directory) {
  static const std::set<std::string> kMeasured = {"pages_per_second", "resident_bytes",     "anonymous_bytes",
                                                  "file_bytes",       "machine_free_bytes", "data_wait",
                                                  "eval_seconds"};
  std::map<std::string, std::string> files = files_below(directory);
  // args.json names the directory and whether the run was resumed, findings.json where the data are.
  for (const char* name : {"plan.json", "summary.json", "args.json", "findings.json"}) {
    if (files.contains(name)) files[name] = "there";
  }
  // It is of the last evaluation, which a run does not repeat that is resumed after it.
  files.erase("worst.json");
  files.erase(".plimsoll/lock");  // it cannot be removed, but nobody holds it
  if (!files.contains("metrics.jsonl")) return files;
  std::istringstream lines(files["metrics.jsonl"]);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json object = nlohmann::json::parse(line);
    for (const std::string& key : kMeasured) object.erase(key);
    kept += object.dump() + "\n";
  }
  files["metrics.jsonl"] = kept;
  return files;
}

// Returns the names of files that differ, "" if there are none, because bytes of megabytes are not a useful message.
inline std::string difference(const std::map<std::string, std::string>& found,
                              const std::map<std::string, std::string>& expected) {
  std::string text;
  for (const auto& [name, bytes] : found) {
    if (!expected.contains(name)) text += name + " is left over; ";
  }
  for (const auto& [name, bytes] : expected) {
    const auto at = found.find(name);
    if (at == found.end()) text += name + " is missing; ";
    if (at != found.end() && at->second != bytes) text += name + " differs; ";
  }
  return text;
}

class FinishedRun : public ProgramTest {
 protected:
  // The run has three updates, each saved, two workers, and evaluations.
  Arguments arguments(const std::string& output, const std::string& limit = "1") const {
    Arguments all = train_arguments(output, {"--max-steps", "3", "--save-steps", "1", "--save-total-limit", limit,
                                             "--eval-data", path("pages/validation.jsonl")});
    *(std::find(all.begin(), all.end(), "--dataloader-num-workers") + 1) = "2";
    return all;
  }
  Arguments resuming(const std::string& output) const {
    Arguments all = arguments(output);
    all.insert(all.end(), {"--resume-from-checkpoint", "latest"});
    return all;
  }
  void SetUp() override {
    draw_pages();
    // Trained once in a test program; each test continues or damages a copy.
    static const ScratchFolder made;
    if (!fs::exists(made / "whole")) {
      for (const auto& [name, limit] : {std::pair{"whole", "1"}, std::pair{"every", "0"}}) {
        const Outcome outcome = run(arguments(name, limit));
        ASSERT_EQ(outcome.code, 0) << outcome.err;
      }
      fs::rename(at("every"), made / "every");
      fs::rename(at("whole"), made / "whole");
    }
    fs::copy(made / "whole", at("whole"), fs::copy_options::recursive);
    results_ = results_of(at("whole"));
    for (const char* name : {"checkpoint-1", "checkpoint-2", "checkpoint-3"}) {
      checkpoints_[name] = files_below(made / "every" / name);
      ASSERT_FALSE(checkpoints_[name].empty());
    }
  }
  // Expects that everything with a checkpoint's name is that checkpoint.
  void expect_good_checkpoints(const std::string& output) const {
    if (!fs::exists(at(output))) return;
    for (const auto& entry : fs::directory_iterator(at(output))) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("checkpoint-")) continue;
      EXPECT_EQ(difference(files_below(entry.path()), checkpoints_.at(name)), "") << name;
    }
  }
  void expect_results(const std::string& output) const { EXPECT_EQ(difference(results_of(at(output)), results_), ""); }
  void expect_resumes(const std::string& output) const {
    const Outcome resumed = run(resuming(output));
    std::string files;
    if (resumed.code != 0) {
      for (const auto& entry : fs::recursive_directory_iterator(at(output))) files += entry.path().string() + "\n";
    }
    EXPECT_EQ(resumed.code, 0) << resumed.err << files;
    if (resumed.code == 0) expect_results(output);
  }

 private:
  std::map<std::string, std::string> results_;
  std::map<std::string, std::map<std::string, std::string>> checkpoints_;
};

}  // namespace plimsoll::test
