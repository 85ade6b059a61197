// Tests budgets as users meet them: refusals, the budgets that they name, and the memory held while a command runs.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>

#include "base/bytes.h"
#include "base/cgroup.h"
#include "cli/program_fixture.h"
#include "support/sanitizer.h"

namespace plimsoll::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class MemoryTest : public ProgramTest {
 protected:
  // Runs with `more` in the environment, in the cgroup `group` if one is given; measures the most memory that it or one
  // of its child processes has held.
  struct Measured {
    Outcome outcome;
    std::size_t peak_bytes = 0;
  };
  Measured measure(const Arguments& arguments, const std::vector<std::pair<std::string, std::string>>& more = {},
                   const fs::path& group = {}) const {
    std::vector<char*> argv;
    Arguments all = arguments;
    std::string program = program_path().string();
    argv.push_back(program.data());
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = path("measured.out"), err = path("measured.err");
    const pid_t child = ::fork();
    if (child == 0) {
      end_with_parent();
      if (!group.empty()) std::ofstream(group / "cgroup.procs") << ::getpid() << std::flush;
      for (const auto& [name, value] : more) ::setenv(name.c_str(), value.c_str(), 1);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    return {{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), file_bytes(out), file_bytes(err)},
            static_cast<std::size_t>(usage.ru_maxrss) * kKiB};
  }
  std::size_t smallest_budget(Arguments arguments) const {
    arguments.emplace_back("--json");
    const Outcome refused = run(arguments);
    EXPECT_EQ(refused.code, 4) << refused.err;
    // train prints several lines, of which the last counts; other commands print one.
    const std::size_t line = refused.out.rfind("\n{", refused.out.size() - 2);
    const bool is_whole = nlohmann::json::accept(refused.out);
    const nlohmann::json object = nlohmann::json::parse(is_whole ? refused.out : refused.out.substr(line + 1));
    return object.at("error").at("smallest_budget_bytes").get<std::size_t>();
  }
};

Arguments with(Arguments arguments, const std::string& option, const std::string& value) {
  const auto at = std::find(arguments.begin(), arguments.end(), option);
  *(at + 1) = value;
  return arguments;
}
Arguments with_budget(const Arguments& arguments, std::size_t mebibytes) {
  return with(arguments, "--budget", std::to_string(mebibytes) + "MiB");
}

TEST_F(MemoryTest, TheErrorObjectNamesABudgetThatRuns) {
  draw_pages();
  const Arguments arguments = train_arguments("run", {"--max-steps", "1"});
  const std::size_t named = smallest_budget(with_budget(arguments, 20));
  EXPECT_EQ(named % kMiB, 0U);
  const Measured ran = measure(with_budget(arguments, named / kMiB));
  EXPECT_EQ(ran.outcome.code, 0) << ran.outcome.err;
  if (kResidentSetIsSteady) {
    EXPECT_LE(ran.peak_bytes, named);
  }
}

TEST_F(MemoryTest, AResumedRunWithASmallerBudgetIsPlannedAnew) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  const auto arguments = [&](const std::string& output, const Arguments& more) {
    return with(train_arguments(output, more), "--train-batch-size", "4");
  };
  ASSERT_EQ(run(arguments("run", {"--max-steps", "1", "--save-steps", "1"})).code, 0);
  const Arguments second = arguments("run", {"--max-steps", "2", "--resume-from-checkpoint", "latest"});
  // The smallest budget of a new run, with one page at a time, has no room for four.
  const std::size_t named = smallest_budget(with_budget(arguments("new", {"--max-steps", "1"}), 20));
  const Outcome resumed = run(with_budget(second, named / kMiB));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("micro-batches of 4 do not fit the budget"));
  EXPECT_THAT(resumed.err, HasSubstr("last bits"));
}

// Returns the texts between the numbers and the explanations of a refusal's remedies: options to pass, or to omit.
std::vector<std::string> printed_remedies(const std::string& message) {
  std::vector<std::string> remedies;
  std::istringstream lines(message);
  const std::regex numbered(R"(^\s+\d\. (.*)$)"), option(R"(^\s+(--.*)$)");
  std::smatch match;
  bool open = false;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, numbered)) {
      remedies.push_back(match[1]);
      open = true;
    } else if (open && std::regex_match(line, match, option)) {
      remedies.back() += " " + match[1].str();  // a long one continues
    } else {
      open = false;
    }
  }
  return remedies;
}

// Returns the arguments after following a remedy: an option that is already there is replaced.
Arguments followed(Arguments arguments, const std::string& remedy, const fs::path& directory) {
  const auto drop = [&](const std::string& name) {
    const auto at = std::find(arguments.begin(), arguments.end(), name);
    if (at == arguments.end()) return;
    const bool has_value = at + 1 != arguments.end() && !(at + 1)->starts_with("--");
    arguments.erase(at, at + (has_value ? 2 : 1));
  };
  std::istringstream words(remedy);
  std::vector<std::string> added;
  bool leaves_out = false;
  for (std::string word; words >> word;) {
    std::erase(word, '\'');
    if (word == "without") {
      leaves_out = true;
    } else if (word == "and") {
      continue;
    } else if (word.starts_with("--")) {
      drop(word);
      if (!leaves_out) added.push_back(word);
    } else if (leaves_out) {  // the value of the option that is left out
      leaves_out = false;
    } else {
      added.push_back(word == "DIR" ? directory.string() : word);
    }
    if (word.starts_with("--") && leaves_out) continue;
  }
  arguments.insert(arguments.end(), added.begin(), added.end());
  return arguments;
}

// A named budget holds 2 MiB (`kVariationBytes`) for what varies between runs and is rounded up to whole MiB, so a run
// that happens to need 2 MiB less may still fit with 4 MiB less.
constexpr std::size_t kSurelyTooLittle = 6;  // MiB

TEST_F(MemoryTest, EveryRemedyThatIsPrintedWorks) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  make_model();
  ASSERT_EQ(run(train_arguments("started", {"--max-steps", "1", "--save-steps", "1"})).code, 0);
  ASSERT_EQ(run({"init", "--model", "llama-small", "--task", "causal-lm", "--output-dir", path("writer")}).code, 0);
  write_texts("texts.jsonl");
  const auto of_model = [&](const Arguments& more) {
    Arguments all = train_arguments("run", {"--max-steps", "1"});
    *(std::find(all.begin(), all.end(), "--model") + 1) = path("model");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto planned_for_gpu = [&](const Arguments& more) {
    Arguments all = train_arguments("run", {"--device", "cuda"});
    all.front() = "plan";
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string validation = path("pages/validation.jsonl");
  const std::vector<Arguments> runs = {
      train_arguments("run", {"--max-steps", "1"}),
      train_arguments("run", {"--max-steps", "1", "--eval-data", validation, "--eval-steps", "1"}),
      train_arguments("run", {"--max-steps", "1", "--eval-data", validation, "--load-best-model-at-end"}),
      train_arguments("run", {"--max-steps", "1", "--recompute", "none", "--stride", "100"}),
      train_arguments("run", {"--max-steps", "1", "--update-mode", "after-backward", "--optim", "adafactor"}),
      train_arguments("run", {"--max-steps", "1", "--freeze", "layoutlmv3.encoder.layer.1.*"}),
      of_model({}),
      of_model({"--lora-rank", "4", "--recompute", "none"}),
      of_model({"--freeze", "classifier.*", "--bf16"}),
      train_arguments("started", {"--max-steps", "2", "--resume-from-checkpoint", "latest", "--recompute", "none",
                                  "--eval-data", validation}),
      planned_for_gpu({}),
      planned_for_gpu({"--offload", "none", "--recompute", "none", "--bf16"}),
      with_budget(eval_arguments(), 1024),
      {"eval", "--model", path("writer"), "--data", path("pages/texts.jsonl"), "--max-length", "64", "--threads", "1",
       "--budget", "1GiB"}};
  int tried = 0;
  for (const Arguments& arguments : runs) {
    fs::remove_all(at("run"));  // of the previous run
    const std::size_t least = smallest_budget(with_budget(arguments, 20)) / kMiB;
    std::string label;
    for (const std::string& argument : arguments) label += argument + " ";
    const Arguments tight = with_budget(arguments, least - kSurelyTooLittle);
    const Outcome refused = run(tight);
    ASSERT_EQ(refused.code, 4) << label << refused.err;
    for (const std::string& remedy : printed_remedies(refused.err)) {
      ++tried;
      fs::remove_all(at("run"));
      const Outcome outcome = run(followed(tight, remedy, at("")));
      EXPECT_EQ(outcome.code, 0) << label << "\nwith " << remedy << "\n" << outcome.err;
    }
  }
  EXPECT_GT(tried, 10);
  // An evaluation trains nothing, so it may hold its weights in fewer bits.
  const std::size_t least = smallest_budget(with_budget(runs.back(), 20)) / kMiB;
  EXPECT_THAT(run(with_budget(runs.back(), least - kSurelyTooLittle)).err, testing::HasSubstr(". --load-in-8bit"));
}

// A command that runs several plans makes all of them before the first one runs.
TEST_F(MemoryTest, ANamedBudgetIsEnoughForAllPhases) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  make_model();
  ASSERT_EQ(
      run({"init", "--model", "layoutlmv3-small", "--labels",
           "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL", "--output-dir", path("larger")})
          .code,
      0);
  const std::string validation = path("pages/validation.jsonl");
  const auto of_model = [&](Arguments all, const Arguments& more) {
    *(std::find(all.begin(), all.end(), "--model") + 1) = path("model");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<Arguments> commands = {
      {"compare", path("model"), path("larger"), "--data", validation, "--budget", "1GiB", "--threads", "1"},
      {"prune", "--model", path("model"), "--data", validation, "--to-flops", "0.9", "--output-dir", path("run"),
       "--budget", "1GiB", "--threads", "1"},
      {"prune", "--model", path("model"), "--data", validation, "--to-flops", "0.9", "--epochs", "1", "--output-dir",
       path("run"), "--budget", "1GiB", "--threads", "1"},
      {"prune",
       "--model",
       path("model"),
       "--data",
       path("pages/train.jsonl"),
       "--to-flops",
       "0.8",
       "--layout",
       "plimsoll",
       "--epochs",
       "1",
       "--eval-data",
       validation,
       "--fp16",
       "--fp16-fallback",
       "fp32",
       "--augment",
       "--output-dir",
       path("run"),
       "--budget",
       "1GiB",
       "--threads",
       "1"},
      of_model(train_arguments("run"), {"--max-steps", "1", "--distil-from", path("model"), "--teacher-cache",
                                        path("taught"), "--optim", "adafactor", "--freeze", "layoutlmv3.*"}),
      of_model(train_arguments("run"), {"--max-steps", "1", "--fp16", "--fp16-fallback", "fp32"})};
  for (const Arguments& command : commands) {
    fs::remove_all(at("run"));
    const std::size_t named = smallest_budget(with_budget(command, 20));
    const Measured measured = measure(with_budget(command, named / kMiB));
    EXPECT_EQ(measured.outcome.code, 0) << testing::PrintToString(command) << measured.outcome.err;
    EXPECT_LE(measured.peak_bytes, named) << testing::PrintToString(command);
  }
  // The second model is refused before the first one is evaluated.
  const std::size_t of_first = smallest_budget(with_budget(eval_arguments(), 20)) / kMiB;
  const Outcome refused = run(with_budget(commands.front(), of_first + 4));
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, Not(HasSubstr("pages/s")));
}

// Planning tries many ways to cut an update, each with matrix products of its own.
TEST_F(MemoryTest, PlanningHoldsLessThanTheRun) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  std::vector<nlohmann::json> pairs;
  for (int i = 0; i < 64; ++i) {
    std::string text = "invoice " + std::to_string(i);
    for (int word = 0; word < 3 * i; ++word) text += " total";
    pairs.push_back({{"a", {{"text", text}}}, {"b", {{"text", "a copy of " + text}}}, {"label", 1}});
  }
  write_pages("pairs.jsonl", pairs);
  Arguments arguments = {"train",
                         "--model",
                         "roberta-tiny",
                         "--data",
                         path("pages/pairs.jsonl"),
                         "--task",
                         "pair-similarity",
                         "--train-batch-size",
                         "48",
                         "--max-steps",
                         "1",
                         "--output-dir",
                         path("run"),
                         "--threads",
                         "1",
                         "--budget",
                         "20MiB"};
  const std::size_t named = smallest_budget(arguments);
  const Measured ran = measure(with_budget(arguments, named / kMiB));
  EXPECT_EQ(ran.outcome.code, 0) << ran.outcome.err;
  EXPECT_LE(ran.peak_bytes, named);
  arguments.front() = "plan";
  EXPECT_LE(measure(with_budget(arguments, 20)).peak_bytes, named) << "a refusal";
}

// A page of so many words, each in the same box.
nlohmann::json page_of_words(std::size_t words) {
  return {{"words", std::vector<std::string>(words, "word")},
          {"boxes", std::vector<std::vector<int>>(words, {100, 200, 300, 400})},
          {"width", 1000},
          {"height", 1000}};
}

// What is found on a page is kept until it is scored or written, and grows with its questions, or with the square of
// its entities.
TEST_F(MemoryTest, WhatIsFoundOnAPageStaysWithinTheBudget) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  nlohmann::json asked = page_of_words(60), linked = page_of_words(400), labelled = page_of_words(30'000);
  for (int i = 0; i < 1'000; ++i) {
    asked["questions"].push_back({{"id", "q" + std::to_string(i)},
                                  {"question", "What is the total " + std::to_string(i) + "?"},
                                  {"answers", {{{"text", "word"}, {"start_word", i % 60}, {"end_word", i % 60 + 1}}}}});
  }
  for (int i = 0; i < 200; ++i) {
    linked["entities"].push_back(
        {{"label", i % 2 == 0 ? "question" : "answer"}, {"start_word", 2 * i}, {"end_word", 2 * i + 1}});
    if (i % 2 == 0) linked["links"].push_back({i, i + 1});
  }
  labelled["labels"] = std::vector<std::string>(labelled["words"].size(), "O");
  write_pages("asked.jsonl", {asked});
  write_pages("linked.jsonl", {linked});
  write_pages("labelled.jsonl", {labelled});
  const auto make = [&](const std::string& name, const Arguments& more) {
    for (const char* copy : {"", "-2"}) {
      Arguments arguments = {"init", "--output-dir", path(name + copy)};
      arguments.insert(arguments.end(), more.begin(), more.end());
      ASSERT_EQ(run(arguments).code, 0);
    }
  };
  make("answers", {"--model", "layoutlm-tiny", "--task", "question-answering"});
  make("links", {"--model", "lilt-tiny", "--task", "relation-extraction", "--labels", "question,answer"});
  make("labels", {"--model", "roberta-tiny", "--labels", "O,B-X"});
  struct Case {
    const char *command, *model, *data;
    bool all_scores = false;
  };
  const Case cases[] = {
      {"eval", "answers", "asked"},         {"predict", "answers", "asked"}, {"predict", "answers", "asked", true},
      {"compare", "answers", "asked"},      {"eval", "links", "linked"},     {"predict", "links", "linked"},
      {"predict", "links", "linked", true}, {"compare", "links", "linked"},  {"compare", "labels", "labelled"}};
  for (const Case& each : cases) {
    Arguments arguments = {each.command, "--data", path(std::string("pages/") + each.data + ".jsonl"), "--threads", "1",
                           "--budget",   "20MiB"};
    if (arguments.front() == "compare") {
      arguments.insert(arguments.end(), {path(each.model), path(std::string(each.model) + "-2"), "--rounds", "1"});
    } else {
      arguments.insert(arguments.end(), {"--model", path(each.model)});
    }
    if (arguments.front() == "predict") arguments.insert(arguments.end(), {"--output", path("found.jsonl")});
    if (each.all_scores) arguments.emplace_back("--return-all-scores");
    const std::size_t named = smallest_budget(with_budget(arguments, 20));
    const Measured measured = measure(with_budget(arguments, named / kMiB));
    EXPECT_EQ(measured.outcome.code, 0) << each.command << " " << each.model << measured.outcome.err;
    EXPECT_LE(measured.peak_bytes, named) << each.command << " " << each.model << " scores " << each.all_scores;
    fs::remove(at("found.jsonl"));
  }
}

// The line of a document is written once all its pages are predicted, and a page's line has all its words.
TEST_F(MemoryTest, PredictionHoldsDocumentsWithinTheBudget) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  ASSERT_EQ(
      run({"init", "--model", "roberta-tiny", "--labels", "O,B-X,I-X,B-Y,I-Y", "--output-dir", path("texts")}).code, 0);
  std::vector<nlohmann::json> document(600, page_of_words(40)), large = {page_of_words(25'000)};
  for (nlohmann::json& each : document) each["document"] = "report.pdf";
  write_pages("document.jsonl", document);
  write_pages("large.jsonl", large);
  for (const char* name : {"pages/document.jsonl", "pages/large.jsonl"}) {
    for (const bool scores : {false, true}) {
      Arguments arguments = {"predict",         "--model",   path("texts"), "--data",   path(name), "--output",
                             path("out.jsonl"), "--threads", "1",           "--budget", "20MiB"};
      if (scores) arguments.emplace_back("--return-all-scores");
      const std::size_t named = smallest_budget(with_budget(arguments, 20));
      const Measured measured = measure(with_budget(arguments, named / kMiB));
      EXPECT_EQ(measured.outcome.code, 0) << name << measured.outcome.err;
      EXPECT_LE(measured.peak_bytes, named) << name << " scores " << scores;
    }
  }
}

TEST_F(MemoryTest, PredictionDrawsLargePagesWithinTheBudget) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  make_model();
  // A page whose picture has 25 million pixels would take 100 MiB if drawn at its own size.
  std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  pages.resize(1);
  const std::string huge = path("pages/huge.pgm");
  {
    std::ofstream file(huge, std::ios::binary);
    file << "P5\n5000 5000\n255\n" << std::string(25'000'000, '\xF0');
  }
  pages[0]["image"] = huge;
  write_pages("huge.jsonl", pages);
  const Arguments arguments = {"predict",
                               "--model",
                               path("model"),
                               "--data",
                               path("pages/huge.jsonl"),
                               "--output",
                               path("out"),
                               "--draw",
                               path("drawn"),
                               "--threads",
                               "1",
                               "--budget",
                               "1MiB",
                               "--dataloader-num-workers",
                               "1"};
  const std::size_t named = smallest_budget(arguments);
  const Measured drawn = measure(with_budget(arguments, named / kMiB));
  ASSERT_EQ(drawn.outcome.code, 0) << drawn.outcome.err;
  EXPECT_LE(drawn.peak_bytes, named);
  EXPECT_FALSE(fs::is_empty(at("drawn")));
}

TEST_F(MemoryTest, SpeedsAreMeasuredOnlyWhereTheBudgetHasRoom) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  const fs::path cache = at("cache");
  const std::vector<std::pair<std::string, std::string>> environment = {{"XDG_CACHE_HOME", cache.string()}};
  const Arguments arguments = train_arguments("run", {"--max-steps", "1"});
  const Measured tight = measure(with_budget(arguments, 100), environment);
  EXPECT_EQ(tight.outcome.code, 0) << tight.outcome.err;
  EXPECT_THAT(tight.outcome.err, HasSubstr("typical speeds"));
  EXPECT_THAT(tight.outcome.err, HasSubstr("plimsoll calibrate"));
  EXPECT_LE(tight.peak_bytes, 100 * kMiB);
  EXPECT_FALSE(fs::exists(cache / "plimsoll"));
  for (const char* precision : {"--bf16", "--fp16", ""}) {
    Arguments calibrate = {"calibrate", "--threads", "1"};
    if (*precision != 0) calibrate.emplace_back(precision);
    const Measured calibrated = measure(calibrate, environment);
    EXPECT_EQ(calibrated.outcome.code, 0) << precision << calibrated.outcome.err;
    EXPECT_LE(calibrated.peak_bytes, 240 * kMiB) << precision;  // kCalibrationBytes
  }
  fs::remove_all(at("run"));
  const Measured known = measure(with_budget(arguments, 100), environment);
  EXPECT_EQ(known.outcome.code, 0) << known.outcome.err;
  EXPECT_THAT(known.outcome.err, Not(HasSubstr("typical speeds")));
}

TEST_F(MemoryTest, APlanSaysHowManyUpdatesAndHowLong) {
  draw_pages();
  Arguments arguments = {"plan",
                         "--model",
                         "layoutlmv3-tiny",
                         "--data",
                         path("pages/train.jsonl"),
                         "--train-batch-size",
                         "2",
                         "--num-train-epochs",
                         "5",
                         "--budget",
                         "1GiB",
                         "--threads",
                         "1"};
  const Outcome text = run(arguments);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("10 updates take about "));
  arguments.emplace_back("--json");
  const nlohmann::json plan = nlohmann::json::parse(run(arguments).out);
  EXPECT_EQ(plan.at("updates"), 10);
  EXPECT_DOUBLE_EQ(plan.at("seconds").get<double>(), 10 * plan.at("seconds_per_update").get<double>());
}

TEST_F(MemoryTest, PlanningALargeBatchStaysWithinTheBudget) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  for (const auto& [batch, mebibytes] : {std::pair{16'000, 300}, std::pair{200'000, 400}}) {
    const Measured planned =
        measure({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--train-batch-size",
                 std::to_string(batch), "--budget", std::to_string(mebibytes) + "MiB", "--threads", "1"});
    EXPECT_EQ(planned.outcome.code, 0) << planned.outcome.err;
    EXPECT_LE(planned.peak_bytes, static_cast<std::size_t>(mebibytes) * kMiB) << batch;
  }
}

// A group of 400 MiB around a group without a limit; `inner` is empty if tests cannot make groups on this machine.
class NestedGroups {
 public:
  NestedGroups() {
    std::error_code failed;
    std::vector<CgroupDirectory> own = cgroup_directories("memory");
    std::erase_if(own, [&](const CgroupDirectory& each) { return !fs::exists(each.path / "memory.stat", failed); });
    if (own.empty()) return;
    outer_ = own.back().path / ("plimsoll-cli-test-" + std::to_string(::getpid()));
    if (!fs::create_directory(outer_, failed)) return;
    const bool version2 = own.back().version == 2;
    if (version2) std::ofstream(outer_ / "cgroup.subtree_control") << "+memory" << std::flush;
    std::ofstream limit(outer_ / (version2 ? "memory.max" : "memory.limit_in_bytes"));
    if (!fs::create_directory(outer_ / "inner", failed) || !(limit << 400 * kMiB << std::flush)) return;
    inner = outer_ / "inner";
  }
  ~NestedGroups() {
    std::error_code failed;
    if (outer_.empty()) return;
    fs::remove(outer_ / "inner", failed);
    fs::remove(outer_, failed);
  }
  NestedGroups(const NestedGroups&) = delete;
  NestedGroups& operator=(const NestedGroups&) = delete;
  fs::path inner;

 private:
  fs::path outer_;
};

TEST_F(MemoryTest, AGroupAboveTheProcesssOwnLimitsEveryCommand) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  const NestedGroups groups;
  if (groups.inner.empty()) GTEST_SKIP() << "this machine lets no test make groups";
  draw_pages();
  const Arguments plan = {"plan",      "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--json",
                          "--threads", "1"};
  const Measured planned = measure(plan, {}, groups.inner);
  ASSERT_EQ(planned.outcome.code, 0) << planned.outcome.err;
  EXPECT_LE(nlohmann::json::parse(planned.outcome.out).at("budget_bytes").get<std::size_t>(), 400 * kMiB);
  const Measured refused = measure(train_arguments("run"), {}, groups.inner);
  expect_message(refused.outcome, 4, {"--budget", "1.00 GiB", "400 MiB"});
  const Measured doctor = measure({"doctor"}, {}, groups.inner);
  EXPECT_THAT(doctor.outcome.out, HasSubstr("allows 400 MiB"));
}

}  // namespace
}  // namespace plimsoll::test
