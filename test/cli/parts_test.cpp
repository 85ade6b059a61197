// Tests --freeze, adapters and merge as a user types them.
#include <cmath>
#include <map>

#include "cli/program_fixture.h"

namespace plimsoll::test {
namespace {

class PartsTest : public ProgramTest {
 protected:
  // Makes a base in model/, and an adapter for it in adapter/.
  void train_adapter() const {
    draw_pages();
    make_model();
    const Outcome outcome =
        run(with_model({"--lora-rank", "2", "--lora-target-modules", "query,value", "--max-steps", "2"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, testing::HasSubstr("parameters train (adapters of rank 2 and the head)"));
    EXPECT_THAT(outcome.out, testing::HasSubstr("the adapter is in"));
    EXPECT_THAT(outcome.out, testing::HasSubstr("frozen parameters"));
  }
  // Returns arguments for training model/ into adapter/.
  Arguments with_model(const Arguments& more) const {
    Arguments arguments = train_arguments("adapter", more);
    arguments[2] = path("model");
    return arguments;
  }
};

TEST_F(PartsTest, AdaptersAreTrainedOpenedAndMerged) {
  train_adapter();
  EXPECT_FALSE(fs::exists(at("adapter/model.safetensors")));
  EXPECT_FALSE(fs::exists(at("adapter/checkpoint-2/model.safetensors")));
  const nlohmann::json config = nlohmann::json::parse(file_bytes(at("adapter/adapter_config.json")));
  EXPECT_EQ(config.at("r"), 2);
  EXPECT_EQ(config.at("lora_alpha"), 4);  // twice the rank
  EXPECT_EQ(config.at("target_modules"), (nlohmann::json{"query", "value"}));
  EXPECT_EQ(config.at("base_model_name_or_path"), path("model"));
  // The README says how PEFT opens the adapter.
  EXPECT_THAT(file_bytes(at("adapter/README.md")),
              testing::AllOf(testing::HasSubstr("PeftModel.from_pretrained(base, \".\")"),
                             testing::HasSubstr("from_pretrained(\"" + path("model") + "\"")));
  const nlohmann::json summary = nlohmann::json::parse(file_bytes(at("adapter/summary.json")));
  EXPECT_LT(summary.at("trained_parameters").get<int>(), summary.at("parameters").get<int>() / 20);

  std::map<std::string, double> losses;
  const auto evaluate = [&](const std::string& name, const Arguments& more = {}) {
    Arguments arguments = eval_arguments();
    arguments[2] = path(name);
    arguments.emplace_back("--json");
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    losses[name] = nlohmann::json::parse(outcome.out).at("loss").get<double>();
  };
  const Outcome merged = run({"merge", "--adapter", path("adapter"), "--output-dir", path("merged")});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_THAT(merged.out, testing::HasSubstr("4 adapters of rank 2 merged into " + path("model")));
  for (const char* name : {"model", "adapter", "merged", "adapter/checkpoint-2"}) evaluate(name);
  EXPECT_NEAR(losses["merged"], losses["adapter"], 1e-5);
  EXPECT_EQ(losses["adapter/checkpoint-2"], losses["adapter"]);
  EXPECT_GT(std::abs(losses["model"] - losses["adapter"]), 1e-3);
  // If the base has moved, its new place is given.
  fs::rename(at("model"), at("moved"));
  Arguments arguments = eval_arguments();
  arguments[2] = path("adapter");
  expect_message(run(arguments), 3,
                 {"base model is not found", "base_model_name_or_path", path("model"), "--base-model DIR"});
  const double before = losses["adapter"];
  evaluate("adapter", {"--base-model", path("moved")});
  EXPECT_EQ(losses["adapter"], before);
}

TEST_F(PartsTest, WhatMakesNoSenseIsRefused) {
  train_adapter();
  expect_message(run(with_model({"--freeze", "layoutlmv3.embedings.*"})), 2,
                 {"matches no parameter", "--freeze", "layoutlmv3.embedings.*", "at least one of", "did you mean"});
  expect_message(
      run(with_model({"--freeze", "layoutlmv3.*", "--freeze", "classifier.*"})), 2,
      {"nothing to train", "--freeze", "layoutlmv3.*, classifier.*", "leave at least one", "omit a pattern"});
  expect_message(run(with_model({"--lora-alpha", "8"})), 2,
                 {"needs --lora-rank", "--lora-alpha", "no --lora-rank", "1 or more", "--lora-rank 8"});
  expect_message(run(with_model({"--lora-rank", "2", "--lora-target-modules", "q_proj"})), 2,
                 {"--lora-target-modules", "q_proj", "query, key, value", "omit the option"});
  expect_message(run(with_model({"--lora-rank", "-1"})), 2, {"--lora-rank", "-1", "0 to 4096"});
  expect_message(run(with_model({"--base-model", path("model")})), 2,
                 {"not an adapter", "--base-model", path("model"), "adapter_config.json", "omit --base-model"});
  expect_message(run(train_arguments("other", {"--lora-rank", "2"})), 2,
                 {"stored weights", "--lora-rank", "layoutlmv3-tiny", "a model directory", "plimsoll init"});
  Arguments again = train_arguments("other", {"--lora-rank", "2"});
  again[2] = path("adapter");
  expect_message(run(again), 2, {"adapters already", "--lora-rank", "adapters of rank 2", "without adapters", "plimsoll merge"});
  expect_message(run({"merge", "--adapter", path("model"), "--output-dir", path("merged")}), 2,
                 {"not an adapter", "--adapter", path("model"), "adapter_config.json", "no merging"});
  expect_message(
      run({"merge", "--adapter", path("adapter"), "--output-dir", path("model")}), 2,
      {"would overwrite", "--output-dir", path("model"), "a directory that the command does not read", "pass a new"});
}

TEST_F(PartsTest, FrozenPartsAreInThePlan) {
  draw_pages();
  const auto plan = [&](const Arguments& more) {
    Arguments arguments = {"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget", "1GiB",
                           "--threads", "1", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const auto item = [](const nlohmann::json& json, const std::string& name) {
    for (const nlohmann::json& entry : json.at("items")) {
      if (entry.at("name") == name) return entry.at("bytes").get<std::size_t>();
    }
    return std::size_t{0};
  };
  const nlohmann::json all = plan({});
  const nlohmann::json part = plan({"--freeze", "layoutlmv3.embeddings.*", "--freeze", "*.patch_embed.*"});
  const nlohmann::json listed = plan({"--freeze", "layoutlmv3.embeddings.*,*.patch_embed.*"});
  for (const char* key : {"trained_parameters", "arena_bytes"}) EXPECT_EQ(listed.at(key), part.at(key));
  EXPECT_EQ(item(all, "frozen parameters"), 0U);
  EXPECT_EQ(item(part, "frozen parameters") + item(part, "parameters"), item(all, "parameters"));
  EXPECT_GT(item(part, "frozen parameters"), item(all, "parameters") / 4);
  EXPECT_EQ(item(part, "optimizer state"), 2 * item(part, "parameters"));
  EXPECT_EQ(part.at("parameters"), all.at("parameters"));
  EXPECT_LT(part.at("trained_parameters").get<int>(), all.at("trained_parameters").get<int>());
}

}  // namespace
}  // namespace plimsoll::test
