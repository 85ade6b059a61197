// A model that learns from another one, and predictions with quantized weights.
#include "program_fixture.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;
using nlohmann::json;

class Distillation : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    ASSERT_EQ(run(train_arguments("teacher", {"--max-steps", "6"})).code, 0);
    ASSERT_EQ(
        run({"init", "--model", path("teacher"), "--num-hidden-layers", "1", "--output-dir", path("student")}).code, 0);
  }
  Arguments arguments(const std::string& output, const Arguments& more) const {
    Arguments all = train_arguments(output, more);
    all[2] = path("student");
    return all;
  }
  json trained(const std::string& output, const Arguments& more) const {
    const Outcome outcome = run(arguments(output, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(file_bytes(at(output + "/summary.json")));
  }
};

TEST_F(Distillation, TheTeacherIsInThePlanAndAddsItsLosses) {
  const json plain = trained("plain", {"--max-steps", "2"});
  const json taught = trained("taught", {"--max-steps", "2", "--distil-from", path("teacher")});
  EXPECT_GT(taught.at("loss"), plain.at("loss"));
  EXPECT_EQ(taught.at("parameters"), plain.at("parameters"));  // those that are saved
  if (kResidentSetIsSteady) {
    EXPECT_GT(taught.at("predicted_peak_bytes"), plain.at("predicted_peak_bytes"));
    const double predicted = taught.at("predicted_peak_bytes"), measured = taught.at("measured_peak_bytes");
    EXPECT_LT(measured, predicted);
    EXPECT_GT(measured, predicted - 8 * 1024 * 1024);
  }
  // Without a factor there is nothing of the teacher left but a sum of one.
  const json none = trained("none", {"--max-steps", "2", "--distil-from", path("teacher"), "--distil-logits", "0",
                                     "--distil-hidden", "0", "--distil-relations", "0"});
  EXPECT_EQ(none.at("loss"), plain.at("loss"));
}

// A teacher's states count as much whether all words of a page are labelled or few: they are a mean over rows.
TEST_F(Distillation, StatesCountAlikeHoweverManyWordsAreLabelled) {
  std::istringstream lines(file_bytes(at("pages/train.jsonl")));
  std::string few;
  for (std::string line; std::getline(lines, line);) {
    json page = json::parse(line);
    for (std::size_t word = 1; word < page.at("labels").size(); ++word) page["labels"][word] = nullptr;
    few += page.dump() + "\n";
  }
  write_bytes(at("pages/few.jsonl"), few);
  const auto of_states = [&](const std::string& data) {
    const auto loss = [&](const std::string& weight) {
      Arguments all = arguments(data + weight, {"--max-steps", "1", "--distil-from", path("teacher"), "--distil-logits",
                                                "0", "--distil-relations", weight, "--distil-hidden", weight});
      *(std::ranges::find(all, "--data") + 1) = path("pages/" + data + ".jsonl");
      const Outcome outcome = run(all);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      return json::parse(file_bytes(at(data + weight + "/summary.json"))).at("loss").get<double>();
    };
    return loss("1") - loss("0");
  };
  const double all = of_states("train"), of_few = of_states("few");
  EXPECT_GT(all, 0.01);
  EXPECT_NEAR(of_few, all, 1e-3 * all);
}

TEST_F(Distillation, AResumedRunEndsWithTheSameBits) {
  const Arguments by = {"--distil-from", path("teacher"), "--save-steps", "2"};
  Arguments whole = by, half = by;
  for (Arguments* each : {&whole, &half}) each->insert(each->end(), {"--max-steps", "4"});
  trained("whole", whole);
  fs::create_directory(at("half"));
  fs::copy(at("whole/checkpoint-2"), at("half/checkpoint-2"), fs::copy_options::recursive);
  half.insert(half.end(), {"--resume-from-checkpoint", path("half/checkpoint-2")});
  trained("half", half);
  EXPECT_EQ(file_bytes(at("half/model.safetensors")), file_bytes(at("whole/model.safetensors")));
}

// The teacher has computed other batches for the file than the step would.
TEST_F(Distillation, WhatIsKeptInAFileGivesTheSameBits) {
  if (sums_depend_on_rows()) GTEST_SKIP() << kSumsDependOnRows;
  for (const Arguments& precision : {Arguments{}, Arguments{"--bf16"}}) {
    Arguments computed = {"--max-steps", "2", "--distil-from", path("teacher"), "--overwrite-output-dir"};
    computed.insert(computed.end(), precision.begin(), precision.end());
    Arguments kept = computed;
    kept.insert(kept.end(), {"--teacher-cache", path("cache")});
    trained("computed", computed);
    trained("kept", kept);
    // The bytes are not printed: they are megabytes.
    EXPECT_TRUE(file_bytes(at("kept/model.safetensors")) == file_bytes(at("computed/model.safetensors")));
  }
}

// A second run finds the file that the first has left.
TEST_F(Distillation, WhatTheTeacherComputesMayBeKeptInAFile) {
  for (const Arguments& precision : {Arguments{}, Arguments{"--bf16"}}) {
    const std::string suffix = precision.empty() ? "" : "-bf16";
    Arguments computed = {"--max-steps", "3", "--distil-from", path("teacher")};
    computed.insert(computed.end(), precision.begin(), precision.end());
    Arguments kept = computed;
    kept.insert(kept.end(), {"--teacher-cache", path("cache" + suffix)});
    const json whole = trained("computed" + suffix, computed), first = trained("first" + suffix, kept);
    if (kResidentSetIsSteady) {
      EXPECT_LT(first.at("predicted_peak_bytes"), whole.at("predicted_peak_bytes"));
      EXPECT_LT(first.at("measured_peak_bytes"), first.at("predicted_peak_bytes"));
    }
    ASSERT_EQ(std::distance(fs::directory_iterator(at("cache" + suffix)), {}), 1);
    const fs::path file = fs::directory_iterator(at("cache" + suffix))->path();
    const auto written = fs::last_write_time(file);
    trained("second" + suffix, kept);
    EXPECT_EQ(fs::last_write_time(file), written);
    EXPECT_TRUE(file_bytes(at("second" + suffix + "/model.safetensors")) ==
                file_bytes(at("first" + suffix + "/model.safetensors")));
  }
}

TEST_F(Distillation, ThePlanSaysWhatTheTeachersFileTakes) {
  Arguments plan = arguments(
      "planned", {"--max-steps", "2", "--distil-from", path("teacher"), "--teacher-cache", path("cache"), "--json"});
  plan.front() = "plan";
  const auto told = [&] {
    const Outcome outcome = run(plan);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json before = told();
  EXPECT_FALSE(before.at("teacher_cache").at("whole").get<bool>());
  EXPECT_FALSE(fs::exists(at("cache")));  // a plan writes nothing
  // Without clipping, updates may come in backward: the teacher has none.
  trained("run", {"--max-steps", "2", "--distil-from", path("teacher"), "--teacher-cache", path("cache"),
                  "--max-grad-norm", "0"});
  const json after = told();
  EXPECT_TRUE(after.at("teacher_cache").at("whole").get<bool>());
  const std::size_t bytes = fs::file_size(before.at("teacher_cache").at("file").get<std::string>());
  EXPECT_GE(bytes, before.at("teacher_cache").at("bytes").get<std::size_t>());
  // Predictions alone take little.
  plan.insert(plan.end(), {"--distil-hidden", "0", "--distil-relations", "0"});
  const json predictions = told();
  EXPECT_LT(predictions.at("teacher_cache").at("bytes"), before.at("teacher_cache").at("bytes"));
  EXPECT_FALSE(predictions.at("teacher_cache").at("whole").get<bool>());
}

TEST_F(Distillation, ATeachersFileThatIsDamagedEndsTheRun) {
  const Arguments kept = {"--max-steps", "2", "--distil-from", path("teacher"), "--teacher-cache", path("cache")};
  trained("run", kept);
  const fs::path file = fs::directory_iterator(at("cache"))->path();
  std::string bytes = file_bytes(file);
  for (std::size_t i = bytes.size() / 20; i < bytes.size(); i += bytes.size() / 20) bytes[i] ^= 16;
  write_bytes(file, bytes);
  expect_message(run(arguments("again", kept)), 5, {"damaged", file.string(), "delete it"});
  write_bytes(file, "nothing");
  EXPECT_NE(run(arguments("other", kept)).code, 0);
}

TEST_F(Distillation, ATeachersFileIsOfPagesThatStayTheSame) {
  const Arguments kept = {"--max-steps", "2", "--distil-from", path("teacher"), "--teacher-cache", path("cache")};
  Arguments augmented = kept, padded = kept;
  augmented.push_back("--augment");
  padded.push_back("--pad-to-max-length");
  expect_message(run(arguments("x", augmented)), 2, {"--teacher-cache", "--augment"});
  expect_message(run(arguments("x", padded)), 2, {"--teacher-cache", "--pad-to-max-length"});
  expect_message(run(arguments("x", {"--teacher-cache", path("cache")})), 2, {"--teacher-cache", "--distil-from"});
}

TEST_F(Distillation, ATeacherThatDiffersIsRefused) {
  expect_message(run(arguments("x", {"--distil-from", path("absent")})), 2, {"--distil-from", path("absent")});
  expect_message(run(arguments("x", {"--distil-from", "layoutlmv3-tiny"})), 2, {"layoutlmv3-tiny"});
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--labels", "O,B-X", "--output-dir", path("other")}).code, 0);
  expect_message(run(arguments("x", {"--distil-from", path("other")})), 2,
                 {"the teacher predicts other labels", "--distil-from", "O, B-X", "--labels"});
  ASSERT_EQ(run({"init", "--model", "roberta-tiny", "--output-dir", path("text")}).code, 0);
  expect_message(run(arguments("x", {"--distil-from", path("text")})), 2,
                 {"the teacher is of another family", "roberta", "layoutlmv3"});
}

TEST_F(Distillation, StudentsHaveTheLayersThatWereAskedFor) {
  const json config = json::parse(file_bytes(at("student/config.json")));
  EXPECT_EQ(config.at("num_hidden_layers"), 1);
  expect_message(run({"init", "--model", path("teacher"), "--num-hidden-layers", "9", "--output-dir", path("more")}), 2,
                 {"the model has fewer layers", "--num-hidden-layers", "9", "1 to 2"});
}

TEST_F(Distillation, QuantizedWeightsTakeLessAndFindTheSame) {
  Arguments eval = {"eval",      "--model", path("teacher"), "--data", path("pages/train.jsonl"),
                    "--threads", "1",       "--json"};
  const auto told = [&](const Arguments& more) {
    Arguments all = eval;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json whole = told({}), eight = told({"--load-in-8bit"}), four = told({"--load-in-4bit"});
  EXPECT_NEAR(eight.at("loss").get<double>(), whole.at("loss").get<double>(), 0.02);
  EXPECT_NEAR(four.at("loss").get<double>(), whole.at("loss").get<double>(), 0.2);
  EXPECT_NEAR(told({"--load-in-8bit", "--float-activations"}).at("loss").get<double>(), whole.at("loss").get<double>(),
              0.02);
  if (kResidentSetIsSteady) {
    // For the smallest model the code that decodes takes more than it spares.
    ASSERT_EQ(
        run({"init", "--model", "layoutlmv3-small", "--labels",
             "O,B-COMPANY,I-COMPANY,B-ADDRESS,I-ADDRESS,B-DATE,I-DATE,B-TOTAL,I-TOTAL", "--output-dir", path("small")})
            .code,
        0);
    eval[2] = path("small");
    const std::size_t peak = told({}).at("predicted_peak_bytes");
    const std::size_t of_eight = told({"--load-in-8bit"}).at("predicted_peak_bytes");
    EXPECT_LT(of_eight, peak);
    EXPECT_LT(told({"--load-in-4bit"}).at("predicted_peak_bytes"), of_eight);
  }
  eval.insert(eval.end(), {"--float-activations"});
  expect_message(run(eval), 2, {"--float-activations", "--load-in-8bit"});
}

}  // namespace
}  // namespace plimsoll
