// Tests how a run treats its output directory, and its messages about files that have changed since they were written.
#include <sys/resource.h>

#include <csignal>
#include <map>
#include <thread>

#include "formats/checksums.h"
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class RunDirectory : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }
  std::map<std::string, std::string> files_in(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(at(name))) {
      if (entry.is_regular_file()) {
        files[entry.path().lexically_relative(at(name)).string()] = file_bytes(entry.path());
      }
    }
    return files;
  }
  // Does the same with hashes, where the files are large.
  std::map<std::string, std::uint64_t> sums_in(const std::string& name) const {
    std::map<std::string, std::uint64_t> sums;
    for (const auto& entry : fs::recursive_directory_iterator(at(name))) {
      if (entry.is_regular_file()) {
        sums[entry.path().lexically_relative(at(name)).string()] = sum_of_file(entry.path()).hash;
      }
    }
    return sums;
  }
  void flip(const std::string& name, std::size_t byte) const {
    std::string bytes = file_bytes(at(name));
    bytes.at(byte) = static_cast<char>(bytes.at(byte) ^ 2);
    write_bytes(at(name), bytes);
  }
};

TEST_F(RunDirectory, AFinishedRunIsReplacedOnlyWhenAsked) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "1"})).code, 0);
  const auto before = files_in("run");
  Arguments again = train_arguments("run", {"--max-steps", "1"});
  expect_message(run(again), 2, {"--output-dir", "a finished run", "--overwrite-output-dir", "earlier-N"});
  EXPECT_EQ(files_in("run"), before);
  fs::create_directory(at("elsewhere"));
  fs::copy(at("run/checkpoint-1"), at("elsewhere/checkpoint-1"), fs::copy_options::recursive);
  expect_message(run({"eval", "--model", path("elsewhere"), "--data", path("pages/train.jsonl")}), 3,
                 {"no model in this directory", "has not ended", "pass --model " + path("elsewhere/checkpoint-1")});
  for (const char* command : {"train", "trim", "quantize"}) {
    Arguments all = {command, "--model", path("elsewhere"), "--output-dir", path("from-it")};
    if (std::string(command) != "quantize") all.insert(all.end(), {"--data", path("pages/train.jsonl")});
    expect_message(run(all), 3, {"has not ended", "pass --model " + path("elsewhere/checkpoint-1")});
  }
  // Neither "latest" nor a checkpoint of another run makes this directory the run's own.
  expect_message(
      run(train_arguments("run", {"--max-steps", "2", "--resume-from-checkpoint", path("elsewhere/checkpoint-1")})), 2,
      {"a finished run"});
  EXPECT_EQ(files_in("run"), before);

  again.push_back("--overwrite-output-dir");
  write_bytes(at("run/my-notes.txt"), "a user's own");
  const Outcome second = run(again);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(files_in("run/earlier-1"), before) << "whole";
  EXPECT_EQ(file_bytes(at("run/my-notes.txt")), "a user's own");
  EXPECT_FALSE(fs::exists(at("run/checkpoint-2")));
  EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
  // The warning's remedy continues the earlier run in its new place.
  EXPECT_THAT(second.err,
              testing::HasSubstr("pass --output-dir " + path("run/earlier-1") + " --resume-from-checkpoint latest"));
  const Outcome back =
      run(train_arguments("run/earlier-1", {"--max-steps", "3", "--resume-from-checkpoint", "latest"}));
  EXPECT_EQ(back.code, 0) << back.err;
  // This run reads the files that would be moved away.
  Arguments onto = train_arguments("run", {"--max-steps", "1", "--overwrite-output-dir"});
  onto[2] = path("run/checkpoint-1");
  expect_message(run(onto), 2, {"would be moved away while it is read", "--model"});
}

// "latest" must mean the latest of the run that goes on, and nothing that the other one wrote may be replaced.
// A directory of somebody else's, say, cannot be moved. Here its place is taken.
TEST_F(RunDirectory, ARunThatCannotBeMovedStaysAsItWas) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "1"})).code, 0);
  const auto before = files_in("run");
  fs::create_directories(at("run/.plimsoll/earlier/checkpoint-2/taken"));
  const Outcome outcome = run(train_arguments("run", {"--max-steps", "1", "--overwrite-output-dir"}));
  expect_message(outcome, 5, {"stays as it was", "checkpoint-2", "owner or permissions"});
  EXPECT_EQ(files_in("run"), before);
  EXPECT_EQ(run({"eval", "--model", path("run"), "--data", path("pages/train.jsonl")}).code, 0);
}

TEST_F(RunDirectory, OutputsReplaceNoFileOfARunOrAModel) {
  make_model();
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "1"})).code, 0);
  for (const char* name : {"run/model.safetensors", "run/metrics.jsonl", "model/config.json"}) {
    const std::string bytes = file_bytes(at(name));
    expect_message(run(train_arguments("other", {"--max-steps", "1", "--events", path(name)})), 2,
                   {"--events", "a file of a run or a model", name});
    expect_message(run({"convert", "--input", path("pages/train.jsonl"), "--output", path(name)}), 2,
                   {"--output", name});
    EXPECT_EQ(file_bytes(at(name)), bytes);
  }
  // Predictions may lie beside a model, and be replaced.
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = run({"predict", "--model", path("model"), "--data", path("pages/train.jsonl"), "--output",
                                 path("run/found.jsonl")});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST_F(RunDirectory, ARunThatGoesOnFromAnEarlierCheckpointSetsTheLaterOnesAside) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "4", "--save-steps", "1"})).code, 0);
  const auto before = sums_in("run");
  const auto on_from = [&](const std::string& checkpoint, const std::string& steps) {
    return run(train_arguments("run", {"--max-steps", steps, "--save-steps", "1", "--weight-decay", "0.1",
                                       "--resume-from-checkpoint", checkpoint}));
  };
  const Outcome other = on_from(path("run/checkpoint-2"), "3");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err,
              testing::HasSubstr("had gone on after step 2: its later checkpoints and its model are now in " +
                                 path("run/earlier-1")));
  auto kept = sums_in("run/earlier-1");
  for (const auto& [name, sum] : before) {
    if (name.starts_with("checkpoint-1/") || name.starts_with("checkpoint-2/")) {
      EXPECT_EQ(sum_of_file(at("run") / name).hash, sum) << name;
    } else {
      EXPECT_EQ(kept[name], sum) << name;
    }
  }
  EXPECT_FALSE(fs::exists(at("run/checkpoint-4")));
  EXPECT_NE(sum_of_file(at("run/checkpoint-3/model.safetensors")).hash, before.at("checkpoint-3/model.safetensors"));
  const Outcome on = on_from("latest", "4");
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_THAT(on.out + on.err, testing::HasSubstr("checkpoint-3"));
  EXPECT_FALSE(fs::exists(at("run/earlier-2")));
}

// As after a kill in the middle, and before anything was moved.
TEST_F(RunDirectory, WhatAKilledProcessWasSettingAsideIsSetAside) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "3", "--save-steps", "1"})).code, 0);
  const std::uint64_t last = sums_in("run").at("checkpoint-3/model.safetensors");
  fs::create_directories(at("run/.plimsoll/later-2"));
  fs::copy(at("run/metrics.jsonl"), at("run/.plimsoll/later-2/metrics.jsonl"));
  const Arguments on =
      train_arguments("run", {"--max-steps", "3", "--resume-from-checkpoint", path("run/checkpoint-1")});
  Arguments latest = on;
  latest.back() = "latest";
  EXPECT_EQ(run(latest).code, 0);
  EXPECT_FALSE(fs::exists(at("run/earlier-1")));
  EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
  fs::create_directories(at("run/.plimsoll/later-1"));
  fs::copy(at("run/metrics.jsonl"), at("run/.plimsoll/later-1/metrics.jsonl"));
  fs::rename(at("run/checkpoint-3"), at("run/.plimsoll/later-1/checkpoint-3"));
  const Outcome resumed = run(on);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto kept = sums_in("run/earlier-1");
  EXPECT_EQ(kept.at("checkpoint-3/model.safetensors"), last);
  for (const char* name : {"checkpoint-2/model.safetensors", "model.safetensors", "config.json", "metrics.jsonl"}) {
    EXPECT_TRUE(kept.contains(name)) << name;
  }
  EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
}

TEST_F(RunDirectory, LatestOfAFinishedRunWithoutCheckpointsIsNoLeaveToReplaceIt) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "1", "--save-steps", "0"})).code, 0);
  const auto before = files_in("run");
  expect_message(run(train_arguments("run", {"--max-steps", "2", "--resume-from-checkpoint", "latest"})), 2,
                 {"a finished run"});
  EXPECT_EQ(files_in("run"), before);
}

TEST_F(RunDirectory, ARunThatIsRefusedMovesNothing) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "1"})).code, 0);
  const auto before = files_in("run");
  Arguments small = train_arguments("run", {"--max-steps", "1", "--overwrite-output-dir"});
  *(std::find(small.begin(), small.end(), "--budget") + 1) = "20MiB";
  EXPECT_EQ(run(small).code, 4);
  EXPECT_EQ(files_in("run"), before);
}

TEST_F(RunDirectory, AnAdapterAndAMergedModelGoBesideNoOther) {
  make_model();
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "1"})).code, 0);
  const auto before = files_in("run");
  Arguments adapter = train_arguments("run", {"--max-steps", "1", "--lora-rank", "2"});
  adapter[2] = path("model");
  expect_message(run(adapter), 2, {"a finished run"});
  *std::find(adapter.begin(), adapter.end(), path("run")) = path("adapter");
  ASSERT_EQ(run(adapter).code, 0);
  expect_message(run({"merge", "--adapter", path("adapter"), "--output-dir", path("run")}), 2,
                 {"--output-dir", "holds files already"});
  EXPECT_EQ(files_in("run"), before);
  ASSERT_EQ(run({"merge", "--adapter", path("adapter"), "--output-dir", path("merged")}).code, 0);
  expect_message(run({"merge", "--adapter", path("adapter"), "--output-dir", path("merged")}), 2,
                 {"holds files already"});
}

TEST_F(RunDirectory, TwoRunsDoNotShareOne) {
  Process first(train_arguments("run", {"--max-steps", "100000", "--save-steps", "1", "--save-total-limit", "1"}),
                at("first"));
  for (int i = 0; i < 6000 && !fs::exists(at("run/checkpoint-1")); ++i) ::usleep(5000);
  const Outcome second = run(train_arguments("run", {"--max-steps", "1", "--resume-from-checkpoint", "latest"}));
  expect_message(second, 2,
                 {"another process is writing to this directory", path("run"), "held by process ", " since "});
  first.signal(SIGTERM);
  EXPECT_GE(first.wait().code, 128);
  EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
}

// A run was killed while it moved an earlier one away: `plan` finishes that, as `train` would.
TEST_F(RunDirectory, PlanResumesWhatTrainWould) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "1"})).code, 0);
  fs::create_directories(at("run/.plimsoll/earlier"));
  fs::rename(at("run/config.json"), at("run/.plimsoll/earlier/config.json"));
  Arguments plan = train_arguments("run", {"--max-steps", "3", "--resume-from-checkpoint", "latest"});
  plan[0] = "plan";
  const Outcome planned = run(plan);
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, testing::HasSubstr("no checkpoint in " + path("run")));
  EXPECT_TRUE(fs::exists(at("run/earlier-1/checkpoint-2")));
  EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
}

// Whether the next run writes that file again or, as with worst.json after the last evaluation, does not.
TEST_F(RunDirectory, WhatAKilledRunWasWritingIsRemoved) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "1"})).code, 0);
  fs::create_directories(at("run/.plimsoll"));
  for (const char* name : {"worst.json", "report.html", "plan.json", "config.json", "notes"}) {
    write_bytes(at(std::string("run/") + name + ".plimsoll.tmp"), "half a fi");
  }
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--resume-from-checkpoint", "latest"})).code, 0);
  for (const auto& entry : fs::directory_iterator(at("run"))) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(name.ends_with(".plimsoll.tmp"), name == "notes.plimsoll.tmp") << name;
  }
}

TEST_F(RunDirectory, UsersOwnFilesWithOurKindOfNamesStay) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "1"})).code, 0);
  fs::create_directory(at("run/checkpoint-7.tmp"));
  write_bytes(at("run/checkpoint-7.tmp/notes"), "a user's own");
  write_bytes(at("run/plan.json.tmp"), "a user's own");
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "3", "--resume-from-checkpoint", "latest"})).code, 0);
  EXPECT_EQ(file_bytes(at("run/checkpoint-7.tmp/notes")), "a user's own");
  EXPECT_EQ(file_bytes(at("run/plan.json.tmp")), "a user's own");
}

TEST_F(RunDirectory, DamageIsSeenByWhoeverReads) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "2"})).code, 0);
  const Arguments resume = train_arguments("run", {"--max-steps", "3", "--resume-from-checkpoint", "latest"});
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json", "tokenizer.json",
                           "preprocessor_config.json", "trainer_state.json"}) {
    const std::string file = std::string("run/checkpoint-2/") + name;
    flip(file, fs::file_size(at(file)) / 2);
    expect_message(run(resume), 3, {"damaged", path(file)});
    flip(file, fs::file_size(at(file)) / 2);
  }
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const std::string file = std::string("run/") + name;
    flip(file, fs::file_size(at(file)) - 9);
    Arguments eval = eval_arguments();
    eval[2] = path("run");
    expect_message(run(eval), 3, {"damaged", path(file)});
    eval[0] = "predict";
    expect_message(run(eval), 3, {"damaged", path(file)});
    flip(file, fs::file_size(at(file)) - 9);
  }
  EXPECT_EQ(run(resume).code, 0);
}

TEST_F(RunDirectory, ALimitOnFilesIsFoundBeforeTheFirstUpdate) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;  // smaller than the weights
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Outcome refused = run(train_arguments("run", {"--max-steps", "3"}));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  expect_message(refused, 5, {"ulimit -f", "1.00 MiB", path("run")});
  EXPECT_FALSE(fs::exists(at("run/metrics.jsonl")));
}

TEST_F(RunDirectory, AFailedCommandLeavesNoEmptyDirectory) {
  draw_pages();
  make_model();
  const std::string pages = path("pages/train.jsonl"), model = path("model");
  const Arguments commands[] = {
      {"init", "--model", "layoutlmv3-tiny", "--output-dir", path("new")},
      {"quantize", "--model", model, "--output-dir", path("new")},
      {"trim", "--model", model, "--data", pages, "--output-dir", path("new")},
      {"prune", "--model", model, "--data", pages, "--to-flops", "0.5", "--output-dir", path("new"), "--threads", "1"},
      {"prune", "--model", model, "--data", pages, "--to-flops", "0.5", "--epochs", "1", "--output-dir", path("new"),
       "--threads", "1"}};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;  // smaller than the weights
  for (const Arguments& command : commands) {
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Outcome failed = run(command);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(failed.code, 5) << command.front() << failed.err;
    EXPECT_FALSE(fs::exists(at("new"))) << command.front();
    // One that was there stays.
    fs::create_directory(at("new"));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_EQ(run(command).code, 5) << command.front();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(fs::is_empty(at("new"))) << command.front();
    fs::remove_all(at("new"));
  }
  Arguments refused = train_arguments("new", {"--max-steps", "1"});
  *(std::find(refused.begin(), refused.end(), "--budget") + 1) = "20MiB";
  EXPECT_EQ(run(refused).code, 4);
  EXPECT_FALSE(fs::exists(at("new")));
}

TEST_F(RunDirectory, ArgsJsonHasAllOptionsAndAResumeSaysWhatChanged) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "2", "--warmup-ratio", "0.5"})).code, 0);
  const nlohmann::json record = nlohmann::json::parse(file_bytes(at("run/args.json")));
  EXPECT_EQ(record.at("options").at("warmup_ratio"), 0.5);
  EXPECT_EQ(record.at("options").at("learning_rate"), 1e-3);
  EXPECT_EQ(record.at("options").at("seed"), 42);
  EXPECT_EQ(record.at("options").at("bf16"), false);
  EXPECT_EQ(record.at("options").at("model"), "layoutlmv3-tiny");
  EXPECT_EQ(record.at("given").at("warmup_ratio"), 0.5);
  EXPECT_FALSE(record.at("given").contains("seed"));
  // It repeats the run.
  ASSERT_EQ(run({"train", "--config", path("run/args.json"), "--output-dir", path("again")}).code, 0);
  EXPECT_TRUE(file_bytes(at("again/model.safetensors")) == file_bytes(at("run/model.safetensors")));
  EXPECT_EQ(record.at("fingerprints").at("data").at("pages"), 4);
  EXPECT_EQ(record.at("fingerprints").at("tokenizer").get<std::string>().size(), 16U);
  EXPECT_TRUE(record.at("plimsoll").is_string());

  // One word gets another label: the numbers of words, tokens and windows stay the same.
  const std::string data = file_bytes(at("pages/train.jsonl"));
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  for (nlohmann::json& label : pages.front()["labels"]) {
    if (label == "B-TOTAL") label = "B-DATE";
  }
  write_pages("train.jsonl", pages);
  const auto resume = [&](const Arguments& more) {
    Arguments all = train_arguments("run", {"--resume-from-checkpoint", "latest", "--save-steps", "2"});
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Outcome relabelled = resume({"--max-steps", "4", "--warmup-ratio", "0.5"});
  EXPECT_EQ(relabelled.code, 0);
  EXPECT_THAT(relabelled.err, testing::HasSubstr("other labels on the words of the training data"));
  EXPECT_THAT(relabelled.err, testing::Not(testing::HasSubstr("other words")));
  EXPECT_THAT(relabelled.err, testing::HasSubstr("max_steps: 2 then, 4 now"));
  EXPECT_THAT(relabelled.err, testing::Not(testing::HasSubstr("warmup_ratio:")));

  pages.front()["words"].front() = "Other";
  write_pages("train.jsonl", pages);
  const Outcome reworded = resume({"--max-steps", "6", "--warmup-ratio", "0.25"});
  EXPECT_EQ(reworded.code, 0);
  EXPECT_THAT(reworded.err, testing::AnyOf(testing::HasSubstr("other words or boxes in the training data"),
                                           testing::HasSubstr("other training data")));
  EXPECT_THAT(reworded.err, testing::HasSubstr("warmup_ratio: 0.5 then, 0.25 now"));
  EXPECT_THAT(reworded.err, testing::Not(testing::HasSubstr("other pictures")));

  const std::string picture = at("pages/" + pages.front()["image"].get<std::string>());
  write_bytes(picture, file_bytes(picture) + "more");
  const Outcome repainted = resume({"--max-steps", "8", "--warmup-ratio", "0.25"});
  EXPECT_EQ(repainted.code, 0) << repainted.err;
  EXPECT_THAT(repainted.err, testing::HasSubstr("other pictures in the training data"));
  EXPECT_THAT(repainted.err, testing::Not(testing::HasSubstr("other words")));

  write_bytes(at("pages/train.jsonl"), data);
  EXPECT_EQ(nlohmann::json::parse(file_bytes(at("run/args.json"))).at("options").at("warmup_ratio"), 0.25);
}

}  // namespace
}  // namespace plimsoll
