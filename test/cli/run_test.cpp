// Trains, evaluates and predicts through the command line; also interrupted and killed runs.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <thread>

#include "program_fixture.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;

class Run : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }

  // Waits until `path` exists, or gives up, because a run that fails at once must not hang the test.
  static bool appears(const fs::path& path) {
    for (int i = 0; i < 6000 && !fs::exists(path); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return fs::exists(path);
  }
};

TEST_F(Run, TrainEvalPredict) {
  const std::string held_out = path("pages/validation.jsonl");
  const Outcome trained = run(train_arguments("run", {"--max-steps", "2", "--eval-data", held_out, "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const nlohmann::json summary = last_event(trained);
  for (const char* key : {"predicted_peak_bytes", "measured_peak_bytes", "steps", "loss", "f1"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "preprocessor_config.json",
                           "plan.json", "summary.json", "metrics.jsonl"}) {
    EXPECT_TRUE(fs::exists(at("run") / name)) << name;
  }

  const Outcome scored = run({"eval", "--model", path("run"), "--data", held_out, "--json", "--threads", "1"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  const nlohmann::json scores = nlohmann::json::parse(scored.out);
  for (const char* key : {"f1", "precision", "recall", "loss", "per_label"}) EXPECT_TRUE(scores.contains(key)) << key;
  // The same model on the same pages gives the scores that training printed at its end.
  EXPECT_NEAR(scores["loss"].get<double>(), summary["evaluation"]["loss"].get<double>(), 1e-5);

  const Outcome predicted = run({"predict", "--model", path("run"), "--data", held_out, "--output", path("out.jsonl"),
                                 "--draw", path("pictures"), "--threads", "1"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  std::ifstream file(at("out.jsonl"));
  const std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const nlohmann::json page = nlohmann::json::parse(line);
    EXPECT_EQ(page["id"], pages.at(count)["id"]);
    EXPECT_EQ(page["labels"].size(), pages.at(count)["words"].size());
  }
  EXPECT_EQ(count, pages.size());
  std::size_t pictures = 0;
  for (const auto& entry : fs::directory_iterator(at("pictures"))) {
    if (entry.path().filename() == ".made-by-plimsoll-predict") continue;
    EXPECT_EQ(file_bytes(entry.path()).substr(0, 8), "\x89PNG\r\n\x1a\n") << entry.path();
    ++pictures;
  }
  EXPECT_EQ(pictures, pages.size());
}

TEST_F(Run, ACacheChangesNoWeight) {
  const std::string held_out = path("pages/validation.jsonl"), cache = path("cache");
  std::vector<std::string> models;
  for (const std::string name : {"plain", "made", "found"}) {
    Arguments more = {"--max-steps", "3", "--eval-data", held_out, "--json"};
    if (name != "plain") more.insert(more.end(), {"--cache", cache});
    const Outcome trained = run(train_arguments(name, more));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(trained.err.find("making the cache") != std::string::npos, name == "made") << trained.err;
    const nlohmann::json summary = last_event(trained);
    EXPECT_GE(summary.at("data_wait").get<double>(), 0);
    EXPECT_LE(summary.at("data_wait").get<double>(), 1);
    EXPECT_LE(summary.at("measured_peak_bytes").get<double>(), summary.at("budget_bytes").get<double>());
    std::ifstream metrics(at(name) / "metrics.jsonl");
    std::string line;
    ASSERT_TRUE(std::getline(metrics, line));
    EXPECT_TRUE(nlohmann::json::parse(line).contains("data_wait"));
    models.push_back(file_bytes(at(name) / "model.safetensors"));
  }
  EXPECT_TRUE(models[1] == models[0]);
  EXPECT_TRUE(models[2] == models[0]);
}

// A run that was stopped after two of four updates and resumed sees the same augmented pages.
TEST_F(Run, AugmentedRunsResumeToTheSameBits) {
  const auto train = [&](const std::string& name, const Arguments& more) {
    Arguments all = {"--max-steps", "4", "--augment", "--save-steps", "2"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(train_arguments(name, all));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return file_bytes(at(name) / "model.safetensors");
  };
  const std::string whole = train("whole", {});
  fs::create_directories(at("resumed"));
  fs::copy(at("whole") / "checkpoint-2", at("resumed") / "checkpoint-2", fs::copy_options::recursive);
  EXPECT_TRUE(train("resumed", {"--resume-from-checkpoint", "latest"}) == whole);
  const Outcome plain = run(train_arguments("plain", {"--max-steps", "4"}));
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_FALSE(file_bytes(at("plain") / "model.safetensors") == whole);
}

// Programs read a run's output line by line while it runs.
TEST_F(Run, JsonComesAsLinesWhileARunGoes) {
  const std::string held_out = path("pages/validation.jsonl");
  const Outcome outcome =
      run(train_arguments("run", {"--max-steps", "4", "--save-steps", "2", "--eval-data", held_out, "--eval-steps", "3",
                                  "--logging-steps=2", "--json", "--num-train-epochs", "9"}));
  EXPECT_EQ(outcome.code, 2);  // --logging-steps twice
  EXPECT_EQ(last_event(outcome).at("event"), "error");
  const auto events = events_of(run(train_arguments("run", {"--max-steps", "4", "--save-steps", "2", "--eval-data",
                                                            held_out, "--eval-steps", "3", "--json", "True"})));
  std::vector<std::string> kinds;
  for (const nlohmann::json& event : events) {
    std::string kind = event.at("event").get<std::string>();
    if (event.contains("step")) kind += " " + std::to_string(event.at("step").get<int>());
    kinds.push_back(std::move(kind));
  }
  EXPECT_THAT(kinds, testing::ElementsAre("plan", "finding", "step 1", "step 2", "checkpoint 2", "step 3",
                                          "evaluation 3", "step 4", "evaluation 4", "checkpoint 4", "end"));
  const nlohmann::json& plan = events.front();
  EXPECT_EQ(plan.at("updates"), 4);
  EXPECT_EQ(plan.at("train_batch_size"), 2);
  EXPECT_TRUE(plan.at("random_weights").get<bool>());
  EXPECT_EQ(plan.at("output_dir"), path("run"));
  EXPECT_GT(plan.at("predicted_peak_bytes").get<double>(), 0);
  // A step has the values of its line in metrics.jsonl.
  const nlohmann::json& step = events[3];
  std::istringstream metrics(file_bytes(at("run/metrics.jsonl")));
  std::string line;
  for (int i = 0; i < 2; ++i) std::getline(metrics, line);
  const nlohmann::json logged = nlohmann::json::parse(line);
  for (const char* key : {"step", "epoch", "loss", "learning_rate", "grad_norm"})
    EXPECT_EQ(step.at(key), logged.at(key)) << key;
  EXPECT_EQ(step.at("total_steps"), 4);
  EXPECT_GE(events[6].at("f1").get<double>(), 0);
  EXPECT_EQ(events[4].at("path"), path("run/checkpoint-2"));
  EXPECT_EQ(events.back().at("steps"), 4);
  EXPECT_EQ(events.back().at("loss"), nlohmann::json::parse(file_bytes(at("run/summary.json"))).at("loss"));
  // A run that cannot begin ends its lines with the reason.
  const Outcome refused = run(train_arguments("run2", {"--json", "--max-length", "5000"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(last_event(refused).at("event"), "error");
  EXPECT_EQ(last_event(refused).at("error").at("where"), "--max-length");
}

// A preset is only a shape: it must not be mistaken for the published model, nor our defaults for Trainer's.
TEST_F(Run, FirstLinesSayWhatMaySurprise) {
  const Outcome preset = run(train_arguments("run", {"--max-steps", "1"}));
  ASSERT_EQ(preset.code, 0) << preset.err;
  EXPECT_THAT(preset.out, testing::HasSubstr("random weights: the preset layoutlmv3-tiny"));
  EXPECT_THAT(preset.out, testing::HasSubstr("hf download microsoft/layoutlmv3-base "));
  EXPECT_THAT(preset.out, testing::HasSubstr("--weight-decay 0.01 (Hugging Face: 0)"));
  EXPECT_THAT(preset.out, testing::Not(testing::HasSubstr("--logging-steps")));  // was given
  EXPECT_THAT(preset.out, testing::HasSubstr("1 update takes about"));
  const Outcome own = run(train_arguments("run2", {"--max-steps", "1", "--weight-decay", "0"}));
  EXPECT_THAT(own.out, testing::Not(testing::HasSubstr("defaults that differ")));
  const Arguments plan = {"plan", "--data", path("pages/train.jsonl"), "--budget", "4GiB", "--model"};
  const auto planned = [&](const std::string& model) {
    Arguments all = plan;
    all.push_back(model);
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(planned("layoutlmv3-base"),
              testing::HasSubstr("random weights: the preset layoutlmv3-base has the published model's shape"));
  EXPECT_THAT(planned("layoutlmv3-tiny"), testing::HasSubstr("3 updates take about"));
  EXPECT_THAT(planned(path("run")), testing::Not(testing::HasSubstr("random weights")));
}

TEST_F(Run, SeveralDataFilesAreOne) {
  const std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  ASSERT_EQ(pages.size(), 4U);
  write_pages("part-1.jsonl", {pages[0], pages[1]});
  write_pages("part-2.jsonl", {pages[2], pages[3]});
  const auto model_of = [&](const std::string& output, const Arguments& data, const Arguments& more = {}) {
    Arguments arguments = train_arguments(output, {"--max-steps", "3"});
    const auto at_data = std::find(arguments.begin(), arguments.end(), "--data") + 1;
    arguments.insert(arguments.erase(at_data), data.begin(), data.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? file_bytes(at(output) / "model.safetensors") : std::string();
  };
  const std::string whole = model_of("whole", {path("pages/train.jsonl")});
  const Arguments parts = {path("pages/part-1.jsonl"), path("pages/part-2.jsonl")};
  EXPECT_TRUE(model_of("parts", parts) == whole);
  EXPECT_TRUE(model_of("twice", {parts[0], "--data", parts[1]}) == whole);
  EXPECT_TRUE(model_of("pattern", {path("pages/part-*.jsonl")}) == whole);
  // Each data set has its own cache, which the next run with the same files finds again.
  const Arguments cache = {"--cache", path("cache")};
  EXPECT_TRUE(model_of("cached", parts, cache) == whole);
  EXPECT_TRUE(model_of("again", parts, cache) == whole);
  EXPECT_FALSE(model_of("first", {parts[0]}, cache).empty());
  int caches = 0;
  for (const auto& entry : fs::directory_iterator(at("cache"))) caches += entry.path().extension() == ".pages" ? 1 : 0;
  EXPECT_EQ(caches, 2);
  write_bytes(at("run.json"), nlohmann::json({{"eval_data", parts}, {"max_steps", 1}}).dump());
  Arguments configured = train_arguments("configured", {"--config", path("run.json")});
  EXPECT_EQ(run(configured).code, 0);
  const Outcome predicted =
      run({"predict", "--model", path("whole"), "--data", parts[0], parts[1], "--budget", "1GiB"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  std::istringstream lines(predicted.out);
  std::size_t page = 0;
  for (std::string line; std::getline(lines, line); ++page) {
    EXPECT_EQ(nlohmann::json::parse(line).at("words"), pages.at(page).at("words"));
  }
  EXPECT_EQ(page, 4U);
  // A fault is reported with the name of the file that has it.
  nlohmann::json bad = pages[3];
  bad["boxes"][0] = {0, 0, 1e6, 1e6};
  write_pages("part-2.jsonl", {pages[2], bad});
  const Outcome checked = run({"check", "--model", "layoutlmv3-tiny", "--data", parts[0], parts[1]});
  EXPECT_EQ(checked.code, 3);
  EXPECT_THAT(checked.out, testing::HasSubstr(parts[1] + ":2"));
  expect_message(
      run({"check", "--model", "layoutlmv3-tiny", "--data", parts[0], parts[1], "--fix", path("fixed.jsonl")}), 2,
      {"--fix takes one file at a time"});
  expect_message(run({"check", "--model", "layoutlmv3-tiny", "--data", path("pages/none-*.jsonl")}), 3,
                 {"no file matches", "none-*.jsonl"});
}

TEST_F(Run, ResumeTrueIsTheLatestCheckpoint) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "2"})).code, 0);
  const Outcome resumed =
      run(train_arguments("run", {"--max-steps", "3", "--resume_from_checkpoint", "True", "--json"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::HasSubstr("resuming from " + path("run/checkpoint-2")));
  EXPECT_EQ(first_event(resumed, "step").at("step"), 3);
  EXPECT_FALSE(first_event(resumed, "plan").at("random_weights").get<bool>());  // they are the checkpoint's
  const Outcome fresh = run(train_arguments("fresh", {"--max-steps", "1", "--resume_from_checkpoint", "False"}));
  EXPECT_EQ(fresh.code, 0) << fresh.err;
}

TEST_F(Run, LossesAreTheSameBitsAtFiveBudgets) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  constexpr int kBudgets = 5;
  const Outcome sweep = run({"plan", "--model", "layoutlmv3-small", "--data", path("pages/train.jsonl"), "--threads",
                             "1", "--train-batch-size", "4", "--micro-batch-size", "4", "--budget", "1TiB", "--sweep",
                             "--points", std::to_string(kBudgets), "--json"});
  ASSERT_EQ(sweep.code, 0) << sweep.err;
  const nlohmann::json plans = nlohmann::json::parse(sweep.out).at("sweep");
  ASSERT_EQ(plans.size(), kBudgets);
  std::vector<std::vector<double>> losses;
  std::vector<std::string> models;
  std::vector<std::size_t> predicted;
  for (const nlohmann::json& plan : plans) {
    const std::string name = "run-" + std::to_string(losses.size());
    Arguments arguments = train_arguments(name, {"--max-steps", "3", "--micro-batch-size", "4"});
    const auto set = [&](const char* option, const std::string& value) {
      *(std::find(arguments.begin(), arguments.end(), option) + 1) = value;
    };
    set("--model", "layoutlmv3-small");
    set("--train-batch-size", "4");
    set("--budget", std::to_string(plan["budget_bytes"].get<std::size_t>()));
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::ifstream metrics(at(name) / "metrics.jsonl");
    losses.emplace_back();
    for (std::string line; std::getline(metrics, line);)
      losses.back().push_back(nlohmann::json::parse(line).at("loss"));
    models.push_back(file_bytes(at(name) / "model.safetensors"));
    predicted.push_back(nlohmann::json::parse(file_bytes(at(name) / "plan.json"))["predicted_peak_bytes"]);
  }
  EXPECT_LT(predicted.front() + (10 << 20), predicted.back()) << "the plans do not differ";
  EXPECT_EQ(losses.front().size(), 3U);
  for (int i = 1; i < kBudgets; ++i) {
    EXPECT_EQ(losses[i], losses[0]) << "budget " << i;
    EXPECT_TRUE(models[i] == models[0]) << "budget " << i;
  }
}

TEST_F(Run, OffloadsWhatTheBudgetAsksFor) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  fs::create_directories(at("disk"));
  const auto summary_of = [&](const std::string& output, const std::string& budget, const Arguments& more) {
    Arguments arguments =
        train_arguments(output, {"--max-steps", "3", "--max-grad-norm", "0", "--micro-batch-size", "2", "--json"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    *(std::find(arguments.begin(), arguments.end(), "--budget") + 1) = budget;
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? last_event(outcome) : nlohmann::json();
  };
  const nlohmann::json plain = summary_of("plain", "1GiB", {});
  ASSERT_TRUE(plain.is_object());
  EXPECT_EQ(plain["offloaded_bytes"], 0);
  // The budget is 3 MiB less than the run needs; its moments are twice as large.
  const std::size_t budget = (plain["predicted_peak_bytes"].get<std::size_t>() >> 20) - 3;
  const nlohmann::json offloaded =
      summary_of("offloaded", std::to_string(budget) + "MiB", {"--recompute", "none", "--offload", path("disk")});
  ASSERT_TRUE(offloaded.is_object());
  EXPECT_GT(offloaded["offloaded_optimizer_state_bytes"], 1 << 20);
  EXPECT_GE(offloaded["offloaded_bytes"], offloaded["offloaded_optimizer_state_bytes"]);
  EXPECT_EQ(offloaded["loss"], plain["loss"]);
  const auto predicted = offloaded["predicted_peak_bytes"].get<double>();
  const auto measured = offloaded["measured_peak_bytes"].get<double>();
  EXPECT_LE(measured, offloaded["budget_bytes"].get<double>());
  EXPECT_LE(std::abs(predicted - measured), 8.0 * (1 << 20));
  EXPECT_TRUE(file_bytes(at("plain") / "model.safetensors") == file_bytes(at("offloaded") / "model.safetensors"));
  EXPECT_TRUE(fs::is_empty(at("disk")));
  const nlohmann::json plan = nlohmann::json::parse(file_bytes(at("offloaded") / "plan.json"));
  EXPECT_EQ(plan["offload"]["bytes"], offloaded["offloaded_bytes"]);
}

TEST_F(Run, OffloadIntoADirectoryThatIsNotThereIsRefused) {
  const Outcome outcome = run(train_arguments("run", {"--max-steps", "1", "--offload", path("absent")}));
  expect_message(outcome, 5, {"--offload " + path("absent"), "No such file or directory", "to do:"});
}

TEST_F(Run, ResumeWithoutACheckpointStartsAfresh) {
  const Outcome outcome = run(train_arguments("run", {"--max-steps", "1", "--resume-from-checkpoint", "latest"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Outcome wrong = run(train_arguments("other", {"--max-steps", "1", "--resume-from-checkpoint", path("absent")}));
  expect_message(wrong, 3, {path("absent"), "latest"});
}

TEST_F(Run, InterruptedRunLeavesACheckpointAndGoesOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    fs::remove_all(at("run"));
    // The run has more updates than the test waits for.
    Process process(train_arguments("run", {"--max-steps", "100000", "--save-steps", "0"}), at("interrupted"));
    ASSERT_TRUE(appears(at("run/metrics.jsonl")));
    process.signal(signal);
    const Outcome outcome = process.wait();
    expect_message(outcome, 128 + signal,
                   {"--resume-from-checkpoint latest", "\nsaving the last finished update before ending; press"});
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(at("run"))) names.push_back(entry.path().filename().string());
    const auto saved = std::find_if(names.begin(), names.end(),
                                    [](const std::string& name) { return name.starts_with("checkpoint-"); });
    ASSERT_NE(saved, names.end());
    const int step = std::stoi(saved->substr(std::string("checkpoint-").size()));
    const Outcome resumed = run(train_arguments(
        "run", {"--max-steps", std::to_string(step + 2), "--resume-from-checkpoint", "latest", "--json"}));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(last_event(resumed).at("steps"), step + 2);
  }
}

TEST_F(Run, GoesOnWhenItsTerminalIsGoneUnderNohup) {
  std::signal(SIGHUP, SIG_IGN);  // as nohup does, and children inherit it
  Process process(train_arguments("run", {"--max-steps", "100000", "--save-steps", "0"}), at("hung"));
  std::signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(appears(at("run/metrics.jsonl")));
  process.signal(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto before = fs::file_size(at("run/metrics.jsonl"));
  for (int i = 0; i < 6000 && fs::file_size(at("run/metrics.jsonl")) == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().code, 128 + SIGKILL) << "it had ended by itself";
}

TEST_F(Run, AModelIsNotWrittenOverWhatItIsMadeOf) {
  make_model();
  const std::string weights = file_bytes(at("model/model.safetensors"));
  Arguments train = train_arguments("pages/../model/", {"--max-steps", "1"});
  *std::find(train.begin(), train.end(), "layoutlmv3-tiny") = path("model");
  expect_message(run(train), 2, {"--output-dir", "would overwrite the input (--model)"});
  fs::create_directory_symlink("model", at("link"));
  expect_message(run({"init", "--model", path("model"), "--labels", "O,B-X", "--output-dir", path("link")}), 2,
                 {"--output-dir", "would overwrite the input (--model)"});
  EXPECT_TRUE(file_bytes(at("model/model.safetensors")) == weights);
}

std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) all[entry.path()] = file_bytes(entry.path());
  }
  return all;
}

TEST_F(Run, ARefusedResumeChangesNothing) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2", "--save-steps", "2"})).code, 0);
  const std::map<std::string, std::string> before = contents(at("run"));
  Arguments arguments =
      train_arguments("run", {"--max-steps", "9", "--resume-from-checkpoint", "latest", "--report-to", "tensorboard"});
  *(std::find(arguments.begin(), arguments.end(), "--learning-rate") + 1) = "1e-5";
  const fs::path damaged = at("run/checkpoint-2/optimizer.safetensors");
  fs::resize_file(damaged, 1000);
  expect_message(run(arguments), 3, {"optimizer.safetensors"});
  write_bytes(damaged, before.at(damaged));
  EXPECT_TRUE(contents(at("run")) == before);
  *(std::find(arguments.begin(), arguments.end(), "--model") + 1) = "roberta-tiny";
  expect_message(run(arguments), 3, {"another family", "a layoutlmv3; --model roberta-tiny is a roberta"});
  EXPECT_TRUE(contents(at("run")) == before);
}

// The events of a refused run say why; they do not keep the next one out.
TEST_F(Run, ADirectoryOfARefusedRunMayBeUsed) {
  Arguments too_little = train_arguments("run", {"--report-to", "jsonl", "--max-steps", "1"});
  *(std::find(too_little.begin(), too_little.end(), "--budget") + 1) = "1MiB";
  const Outcome refused = run(too_little);
  EXPECT_EQ(refused.code, 4) << refused.err;
  ASSERT_THAT(file_bytes(at("run/events.jsonl")), testing::HasSubstr("\"error\""));
  const Outcome outcome = run(train_arguments("run", {"--report-to", "jsonl", "--max-steps", "1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(file_bytes(at("run/events.jsonl")), testing::Not(testing::HasSubstr("\"error\"")));
}

TEST_F(Run, WhereNothingIsLeftNothingIsWritten) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "4", "--save-steps", "2"})).code, 0);
  const std::map<std::string, std::string> before = contents(at("run"));
  const Arguments resume =
      train_arguments("run", {"--max-steps", "1", "--resume-from-checkpoint", path("run/checkpoint-2"), "--json"});
  const Outcome outcome = run(resume);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("nothing is left to train"));
  EXPECT_EQ(last_event(outcome).at("steps"), 4);
  EXPECT_TRUE(contents(at("run")) == before);
  // A missing model is written, and so is one that has trained longer than the model that the last run left.
  fs::remove(at("run/model.safetensors"));
  EXPECT_EQ(run(resume).code, 0);
  EXPECT_TRUE(file_bytes(at("run/model.safetensors")) == file_bytes(at("run/checkpoint-2/model.safetensors")));
  EXPECT_EQ(run(train_arguments("run", {"--max-steps", "4", "--resume-from-checkpoint", "latest"})).code, 0);
  EXPECT_TRUE(file_bytes(at("run/model.safetensors")) == before.at(path("run/model.safetensors")));
}

TEST_F(Run, AResumedRunWhoseUpdatesAreSmallerThanItsMicroBatchIsCutAnew) {
  Arguments first = train_arguments("run", {"--max-steps", "1", "--save-steps", "1"});
  const auto batch = std::find(first.begin(), first.end(), "--train-batch-size") + 1;
  *batch = "4";
  ASSERT_EQ(run(first).code, 0);
  *batch = "2";
  first.insert(first.end(), {"--resume-from-checkpoint", "latest"});
  *(std::find(first.begin(), first.end(), "--max-steps") + 1) = "9";
  const Outcome resumed = run(first);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::HasSubstr("--train-batch-size: 4 then, 2 now; micro-batch: 4 then, "));
}

TEST_F(Run, APlanOfAResumedRunIsThatOfTheRun) {
  // Alone it would take both pages of an update at once.
  const Arguments first = train_arguments("run", {"--max-steps", "1", "--save-steps", "1", "--micro-batch-size", "1"});
  ASSERT_EQ(run(first).code, 0);
  const auto resumed = [&](const std::string& checkpoint, const Arguments& more) {
    Arguments arguments =
        train_arguments("run", {"--max-steps", "2", "--resume-from-checkpoint", checkpoint, "--json"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const auto plan_of = [&](Arguments arguments) {
    arguments.front() = "plan";
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  EXPECT_EQ(plan_of(train_arguments("run", {"--json"})).at("micro_batch_size"), 2);
  for (const std::string& checkpoint : {std::string("latest"), path("run/checkpoint-1")}) {
    EXPECT_EQ(plan_of(resumed(checkpoint, {})).at("micro_batch_size"), 1) << checkpoint;
  }
  EXPECT_THAT(
      plan_of(resumed("latest", {"--sweep", "--points", "2"})).at("sweep"),
      testing::Each(testing::Truly([](const nlohmann::json& plan) { return plan.at("micro_batch_size") == 1; })));
  const nlohmann::json planned = plan_of(resumed("latest", {}));
  EXPECT_EQ(planned.at("random_weights"), false);
  const nlohmann::json trained = first_event(run(resumed("latest", {})), "plan");
  for (const char* key : {"micro_batch_size", "arena_bytes", "gradient_accumulation_steps"}) {
    EXPECT_EQ(planned.at(key), trained.at(key)) << key;
  }
  // Updates of fewer pages than a micro-batch had are cut anew.
  ASSERT_EQ(run(train_arguments("large", {"--max-steps", "1", "--save-steps", "1"})).code, 0);
  Arguments smaller = resumed(path("large/checkpoint-1"), {});
  *(std::find(smaller.begin(), smaller.end(), "--train-batch-size") + 1) = "1";
  smaller.front() = "plan";
  const Outcome cut = run(smaller);
  ASSERT_EQ(cut.code, 0) << cut.err;
  EXPECT_EQ(nlohmann::json::parse(cut.out).at("micro_batch_size"), 1);
  expect_message(run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                      "--resume-from-checkpoint", "latest"}),
                 2, {"--resume-from-checkpoint", "no --output-dir", "pass the run's --output-dir"});
}

TEST_F(Run, KilledAndResumedEqualsUninterrupted) {
  const Arguments options = {
      "--max-steps", "40", "--save-steps", "2", "--save-total-limit", "2", "--resume-from-checkpoint", "latest"};
  Arguments whole = options;
  whole[3] = "0";  // no checkpoints: they must not change the numbers either
  ASSERT_EQ(run(train_arguments("whole", whole)).code, 0);
  Process process(train_arguments("run", options), at("killed"));
  ASSERT_TRUE(appears(at("run/checkpoint-4")));
  process.signal(SIGKILL);
  ASSERT_EQ(process.wait().code, 128 + SIGKILL) << "the run was over before it could be killed";
  ASSERT_FALSE(fs::exists(at("run/model.safetensors")));
  const Outcome resumed = run(train_arguments("run", options));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::HasSubstr("resuming from"));
  EXPECT_TRUE(file_bytes(at("run/model.safetensors")) == file_bytes(at("whole/model.safetensors")));
}

TEST_F(Run, AFreshRunSetsAnUnfinishedOneAside) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "4", "--save-steps", "2"})).code, 0);
  const std::string metrics = file_bytes(at("run/metrics.jsonl"));
  fs::remove(at("run/model.safetensors"));  // as if it had been killed before
  const Outcome second =
      run(train_arguments("run", {"--max-steps", "1", "--save-steps", "1", "--save-total-limit", "1"}));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, testing::HasSubstr("--output-dir " + path("run/earlier-1")));
  EXPECT_TRUE(fs::exists(at("run/checkpoint-1")));
  EXPECT_TRUE(fs::exists(at("run/earlier-1/checkpoint-4")));
  EXPECT_FALSE(fs::exists(at("run/checkpoint-4")));
  EXPECT_EQ(file_bytes(at("run/earlier-1/metrics.jsonl")), metrics);
  const Outcome back = run(train_arguments(
      "on", {"--max-steps", "5", "--resume-from-checkpoint", path("run/earlier-1/checkpoint-4"), "--json"}));
  EXPECT_EQ(back.code, 0) << back.err;
}

TEST_F(Run, ResumingWithOtherLabelsOrATornStateIsRefused) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "4", "--save-steps", "2"})).code, 0);
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  const std::string before = file_bytes(at("pages/train.jsonl"));
  for (nlohmann::json& page : pages) {
    for (nlohmann::json& label : page["labels"]) {
      if (label == "B-TOTAL") label = "B-SUM";
      if (label == "I-TOTAL") label = "I-SUM";
    }
  }
  write_pages("train.jsonl", pages);  // as many labels as before, with other names
  const Arguments resume = train_arguments("run", {"--max-steps", "6", "--resume-from-checkpoint", "latest"});
  expect_message(run(resume), 3, {path("run/checkpoint-4"), "B-SUM", "B-TOTAL", "allowed:"});
  write_bytes(at("pages/train.jsonl"), before);

  const std::string state = file_bytes(at("run/checkpoint-4/trainer_state.json"));
  fs::remove(
      at("run/checkpoint-4/checksums.json"));  // as older versions wrote it: damage then shows only by its effects
  write_bytes(at("run/checkpoint-4/trainer_state.json"), state.substr(0, state.size() / 2));
  expect_message(run(resume), 3, {path("run/checkpoint-4/trainer_state.json"), "another checkpoint"});
  nlohmann::json wrong = nlohmann::json::parse(state);
  wrong["global_step"] = -9;
  write_bytes(at("run/checkpoint-4/trainer_state.json"), wrong.dump());
  expect_message(run(resume), 3, {path("run/checkpoint-4/trainer_state.json"), "-9"});
  write_bytes(at("run/checkpoint-4/trainer_state.json"), state);

  fs::resize_file(at("run/checkpoint-4/optimizer.safetensors"), 100);
  expect_message(run(resume), 3,
                 {path("run/checkpoint-4/optimizer.safetensors"), "or resume from " + path("run/checkpoint-2")});

  Arguments faster = train_arguments("run", {"--max-steps", "6", "--resume-from-checkpoint", path("run/checkpoint-2")});
  *std::find(faster.begin(), faster.end(), "1e-3") = "2e-3";
  const Outcome other = run(faster);
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, testing::HasSubstr("learning rate 0.001 (linear, warm-up 0)"));
}

TEST_F(Run, AFileThatMayNotGrowIsNoCrash) {
  ASSERT_EQ(run(train_arguments("run", {"--max-steps", "1", "--save-steps", "1"})).code, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;  // smaller than the weights
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Outcome full =
      run(train_arguments("run", {"--max-steps", "3", "--save-steps", "2", "--resume-from-checkpoint", "latest"}));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  expect_message(full, 5, {path("run"), "ulimit -f"});
  EXPECT_FALSE(fs::exists(at("run/.plimsoll")));
  const Outcome resumed = run(train_arguments("run", {"--max-steps", "3", "--resume-from-checkpoint", "latest"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

}  // namespace
}  // namespace plimsoll
