// Tests that a JSON file of transformers' TrainingArguments works as it is. test/data/training_arguments.json has every
// field of transformers 5.17 with its default, another value, and what is to come of that: "taken"; "nothing", it
// changes no result and a line says why; "refused", by a message that says what to do.
#include <gtest/gtest.h>

#include "harness/paths.h"
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class TrainingArguments : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    fields_ = nlohmann::json::parse(file_bytes(test_data_dir() / "training_arguments.json"));
    for (const auto& [name, field] : fields_.items()) defaults_[name] = field.at("default");
    // Of a run that evaluates, because some fields mean nothing else.
    defaults_["eval_strategy"] = "steps";
    defaults_["eval_steps"] = 2;
    defaults_["output_dir"] = path("run");
    defaults_["per_device_train_batch_size"] = 4;
  }
  Outcome plan(const nlohmann::json& config) {
    write_bytes(at("arguments.json"), config.dump(2));
    return run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--eval-data",
                path("pages/validation.jsonl"), "--budget", "1GiB", "--config", path("arguments.json")});
  }

  nlohmann::json fields_, defaults_ = nlohmann::json::object();
};

TEST_F(TrainingArguments, DefaultsPassWithoutAWord) {
  ASSERT_EQ(fields_.size(), 112U);
  const Outcome outcome = plan(defaults_);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

// Fields that transformers 4 wrote and 5 no longer has, at their defaults.
TEST_F(TrainingArguments, OfAnEarlierVersionPassToo) {
  nlohmann::json config = defaults_;
  config.update({{"adafactor", false},
                 {"fp16_backend", "auto"},
                 {"fp16_opt_level", "O1"},
                 {"fsdp_min_num_params", 0},
                 {"group_by_length", false},
                 {"half_precision_backend", "auto"},
                 {"mp_parameters", ""},
                 {"no_cuda", false},
                 {"past_index", -1},
                 {"push_to_hub_token", "<X>"},
                 {"push_to_hub_model_id", nullptr},
                 {"save_safetensors", true},
                 {"sharded_ddp", nlohmann::json::array()},
                 {"use_ipex", false},
                 {"use_mps_device", false}});
  const Outcome outcome = plan(config);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  config["group_by_length"] = true;
  expect_message(plan(config), 2, {"--group-by-length", "pass --train-sampling-strategy group_by_length"});
}

// All in one plan: what is told of each does not depend on the others.
TEST_F(TrainingArguments, FieldsThatChangeNothingAreTold) {
  nlohmann::json config = defaults_;
  std::vector<std::string> options;
  for (const auto& [name, field] : fields_.items()) {
    if (field.at("effect") != "nothing") continue;
    config[name] = field.at("other");
    if (field.contains("with")) config.update(field.at("with"));
    options.push_back("--" + name);
    std::ranges::replace(options.back(), '_', '-');
  }
  ASSERT_GT(options.size(), 50U);
  const Outcome outcome = plan(config);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string& option : options) {
    EXPECT_THAT(outcome.err, testing::ContainsRegex(option + " [^\n]*changes nothing: "));
  }
}

TEST_F(TrainingArguments, EveryOtherFieldIsTakenOrRefusedWithAReason) {
  for (const auto& [name, field] : fields_.items()) {
    if (field.at("effect") == "nothing") continue;
    nlohmann::json config = defaults_;
    config[name] = field.at("other");
    if (field.contains("with")) config.update(field.at("with"));
    const Outcome outcome = plan(config);
    std::string option = "--" + name;
    std::ranges::replace(option, '_', '-');
    const std::string effect = field.at("effect");
    if (effect == "refused") {
      EXPECT_EQ(outcome.code, 2) << name;
      EXPECT_THAT(outcome.err, testing::HasSubstr(option)) << name;
      EXPECT_THAT(outcome.err, testing::HasSubstr("to do:   omit it: ")) << name;
      continue;
    }
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    const bool told =
        outcome.err.find(option) != std::string::npos && outcome.err.find("changes nothing: ") != std::string::npos;
    EXPECT_FALSE(told) << name << ": " << outcome.err;
    EXPECT_EQ(effect, "taken") << name;
  }
}

// As scripts write them: flags with and without a value, and lists.
TEST_F(TrainingArguments, TheCommandLineTakesThemToo) {
  const Outcome outcome = run({"plan",
                               "--model",
                               "layoutlmv3-tiny",
                               "--data",
                               path("pages/train.jsonl"),
                               "--budget",
                               "1GiB",
                               "--torch_compile",
                               "--use_liger_kernel",
                               "True",
                               "--include_for_metrics",
                               "inputs",
                               "loss",
                               "--bf16",
                               "True",
                               "--local_rank",
                               "-1",
                               "--fsdp",
                               "",
                               "--dataloader_pin_memory=False"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* option : {"--torch-compile true", "--use-liger-kernel True", "--include-for-metrics inputs loss",
                             "--dataloader-pin-memory False"}) {
    EXPECT_THAT(outcome.err, testing::HasSubstr(std::string(option) + " changes nothing: "));
  }
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("local-rank")));
  const Outcome elsewhere =
      run({"eval", "--model", path("run"), "--data", path("pages/train.jsonl"), "--torch-compile"});
  EXPECT_EQ(elsewhere.code, 2);
}

TEST_F(TrainingArguments, StrategiesNeedWhatTheyGoBy) {
  const auto refused = [&](const Arguments& more, const std::vector<std::string>& says) {
    Arguments arguments = {"plan",     "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                           "--budget", "1GiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_message(run(arguments), 2, says);
  };
  refused({"--save-steps", "2.5"}, {"--save-steps", "2.5", "a whole number, or a fraction"});
  refused({"--early-stopping-patience", "2"}, {"--early-stopping-patience", "no --eval-data"});
  refused({"--save-strategy", "best"}, {"--save-strategy best", "no --eval-data"});
  refused({"--eval-data", path("pages/validation.jsonl"), "--eval-strategy", "no", "--load-best-model-at-end"},
          {"--load-best-model-at-end", "--eval-strategy no"});
  refused({"--eval-data", path("pages/validation.jsonl"), "--eval-strategy", "steps", "--logging-steps", "0"},
          {"--eval-strategy", "--eval-steps N"});
  refused({"--report-to", "wandb"}, {"--report-to", "wandb", "tensorboard, jsonl, all or none", "callbacks"});
  refused({"--greater-is-better", "maybe"}, {"--greater-is-better", "maybe"});
  refused({"--label-smoothing-factor", "0.1", "--focal-gamma", "2"}, {"both", "only one of them"});
  refused({"--task", "question-answering", "--focal-gamma", "2"}, {"--focal-gamma", "question-answering"});
  refused({"--lr-pattern", "classifer.*=1e-3"}, {"--lr-pattern", "classifer.*", "matches no parameter"});
  refused({"--lr-pattern", "classifier.*"}, {"--lr-pattern", "PATTERN=RATE"});
  refused({"--dataloader-drop-last", "--per-device-train-batch-size", "64"}, {"--dataloader-drop-last", "windows"});
}

}  // namespace
}  // namespace plimsoll
