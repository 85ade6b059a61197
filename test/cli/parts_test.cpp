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
    EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("other weights")));
    losses[name] = nlohmann::json::parse(outcome.out).at("loss").get<double>();
  };
  const Outcome merged = run({"merge", "--adapter", path("adapter"), "--output-dir", path("merged")});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_THAT(merged.out, testing::HasSubstr("4 adapters of rank 2 merged into " + path("model")));
  ASSERT_EQ(run({"merge", "--adapter", path("adapter"), "--dtype", "bfloat16", "--output-dir", path("halves")}).code,
            0);
  EXPECT_LT(fs::file_size(at("halves/model.safetensors")), fs::file_size(at("merged/model.safetensors")) * 6 / 10);
  for (const char* name : {"model", "adapter", "merged", "halves", "adapter/checkpoint-2"}) evaluate(name);
  EXPECT_NEAR(losses["halves"], losses["adapter"], 1e-2);
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
  // Another model of that shape is where the base was.
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--labels", "O,B-ADDRESS,I-ADDRESS", "--seed", "7",
                 "--output-dir", path("model")})
                .code,
            0);
  const Outcome other = run(arguments);
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, testing::HasSubstr("warning: " + path("adapter") + " has been trained on other weights than " +
                                            path("model") + " has now"));
}

// PEFT's LoraConfig as options, and as the keys of a config file.
TEST_F(PartsTest, AdaptersHaveTheSettingsOfPeft) {
  draw_pages();
  make_model();
  const Arguments settings = {"--lora-rank",
                              "2",
                              "--use-rslora",
                              "--use_dora",
                              "True",
                              "--rank-pattern",
                              "query=4",
                              "--rank-pattern",
                              R"({"layer\\.1\\..*": 3})",
                              "--alpha_pattern",
                              "value=6",
                              "--modules-to-save",
                              "LayerNorm,classifier",
                              "--exclude_modules",
                              "key",
                              "--layers-to-transform",
                              "1",
                              "--max-steps",
                              "2",
                              "--lora-dropout",
                              "0.1"};
  const Outcome trained = run(with_model(settings));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, testing::HasSubstr("DoRA adapters of ranks 3 to 4, the head and 6 modules"));
  const nlohmann::json config = nlohmann::json::parse(file_bytes(at("adapter/adapter_config.json")));
  EXPECT_EQ(config.at("use_rslora"), true);
  EXPECT_EQ(config.at("use_dora"), true);
  EXPECT_EQ(config.at("r"), 2);
  EXPECT_EQ(config.at("target_modules").size(), 5U);  // whole names: layer 1 alone, without key
  const std::string layer = "layoutlmv3.encoder.layer.1.";
  EXPECT_EQ(config.at("rank_pattern").at(layer + "attention.self.query"), 4);
  EXPECT_EQ(config.at("rank_pattern").at(layer + "intermediate.dense"), 3);
  EXPECT_EQ(config.at("alpha_pattern"), (nlohmann::json{{layer + "attention.self.value", 6}}));
  EXPECT_EQ(config.at("modules_to_save").size(), 7U);
  EXPECT_THAT(config.at("modules_to_save").dump(), testing::HasSubstr("layoutlmv3.encoder.layer.0.output.LayerNorm"));

  // The same from a file, and the plan of it.
  const nlohmann::ordered_json file = {{"lora_rank", 2},
                                       {"use_rslora", true},
                                       {"use_dora", true},
                                       {"rank_pattern", {{"query", 4}, {R"(layer\.1\..*)", 3}}},
                                       {"alpha_pattern", {{"value", 6}}},
                                       {"modules_to_save", {"LayerNorm", "classifier"}},
                                       {"exclude_modules", {"key"}},
                                       {"layers_to_transform", {1}},
                                       {"layers_pattern", "layer"},
                                       {"lora_dropout", 0.1}};
  const auto planned = [&](const Arguments& more) {
    Arguments arguments = {"plan",     "--model", path("model"), "--data", path("pages/train.jsonl"),
                           "--budget", "1GiB",    "--threads",   "1",      "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  write_bytes(at("lora.json"), file.dump());
  Arguments typed(settings.begin(), settings.end());
  const nlohmann::json one = planned(typed), other = planned({"--config", path("lora.json")});
  for (const char* key : {"trained_parameters", "parameters", "arena_bytes"}) EXPECT_EQ(one.at(key), other.at(key));
  EXPECT_GT(one.at("trained_parameters"),
            planned({"--lora-rank", "2", "--layers-to-transform", "[1]"}).at("trained_parameters"));

  // eval opens it, merge folds it, and the run is resumed with the same settings alone.
  std::map<std::string, double> losses;
  const Outcome merged = run({"merge", "--adapter", path("adapter"), "--output-dir", path("merged")});
  ASSERT_EQ(merged.code, 0) << merged.err;
  for (const char* name : {"adapter", "merged"}) {
    Arguments arguments = eval_arguments();
    arguments[2] = path(name);
    arguments.emplace_back("--json");
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    losses[name] = nlohmann::json::parse(outcome.out).at("loss").get<double>();
  }
  EXPECT_NEAR(losses["merged"], losses["adapter"], 1e-5);
}

TEST_F(PartsTest, SettingsOfAdaptersThatMakeNoSenseAreRefused) {
  draw_pages();
  make_model();
  const auto refused = [&](const Arguments& more, const std::vector<std::string>& says) {
    expect_message(run(with_model(more)), 2, says);
  };
  for (const char* flag : {"--use-rslora", "--use-dora"}) refused({flag}, {"needs --lora-rank", flag, "--lora-rank 8"});
  for (const auto& [option, value] : std::map<std::string, std::string>{{"--rank-pattern", "query=4"},
                                                                        {"--alpha-pattern", "query=4"},
                                                                        {"--modules-to-save", "LayerNorm"},
                                                                        {"--exclude-modules", "key"},
                                                                        {"--layers-to-transform", "0"}}) {
    refused({option, value}, {"needs --lora-rank", option});
  }
  const auto with_rank = [&](const std::string& option, const std::string& value,
                             const std::vector<std::string>& says) {
    refused({"--lora-rank", "2", option, value}, says);
  };
  with_rank("--rank-pattern", "qery=4", {"--rank-pattern", "qery", "matches no linear map", "12 maps"});
  with_rank("--rank-pattern", "query=2.5", {"--rank-pattern", "query=2.5", "whole number from 1"});
  with_rank("--rank-pattern", "query=0", {"--rank-pattern", "query=0", "whole number from 1"});
  with_rank("--rank-pattern", "(=2", {"--rank-pattern", "(", "no regular expression"});
  with_rank("--rank-pattern", "query", {"--rank-pattern", "'query'", "NAME=NUMBER", "query=4", "JSON object"});
  with_rank("--alpha-pattern", R"({"query": "4"})", {"--alpha-pattern", "query", "JSON object with numbers"});
  with_rank("--alpha-pattern", "query=-1", {"--alpha-pattern", "query=-1", "from 0"});
  with_rank("--modules-to-save", "LayerNrm", {"--modules-to-save", "LayerNrm", "no module"});
  with_rank("--exclude-modules", "q_proj", {"--exclude-modules", "q_proj", "query, key, value"});
  with_rank("--layers-to-transform", "2", {"--layers-to-transform", "2", "0 to 1"});
  with_rank("--layers-to-transform", "one", {"--layers-to-transform", "'one'", "numbers of layers"});
  with_rank("--modules-to-save", "encoder", {"no linear map is left", "--modules-to-save", "fewer"});
  with_rank("--layers-pattern", "blocks", {"--layers-pattern", "blocks", "layer"});
}

TEST_F(PartsTest, LabelsHaveWeights) {
  draw_pages();
  const auto train = [&](const std::string& name, const Arguments& more) { return run(train_arguments(name, more)); };
  const Outcome balanced = train("balanced", {"--class-weights", "balanced", "--max-steps", "2"});
  ASSERT_EQ(balanced.code, 0) << balanced.err;
  EXPECT_THAT(balanced.err, testing::HasSubstr("class weights: "));
  const nlohmann::json record = nlohmann::json::parse(file_bytes(at("balanced/args.json")));
  EXPECT_EQ(record.at("options").at("class_weights"), "balanced");
  ASSERT_EQ(record.at("class_weights").size(), record.at("labels").size());
  // Counted over the words of the pages that are trained on.
  std::map<std::string, double> counts;
  double all = 0;
  for (const nlohmann::json& page : read_pages("train.jsonl")) {
    for (const nlohmann::json& label : page.at("labels")) ++counts[label], ++all;
  }
  const auto classes = static_cast<double>(counts.size());
  for (std::size_t i = 0; i < record.at("labels").size(); ++i) {
    const double count = counts[record.at("labels")[i]];
    EXPECT_NEAR(record.at("class_weights")[i].get<double>(), count > 0 ? all / (classes * count) : 1, 1e-4);
  }
  const Outcome named = train("named", {"--class-weights", "O=0.5", "--class-weights", R"({"B-TOTAL": 3})",
                                        "--focal-gamma", "2", "--max-steps", "1"});
  ASSERT_EQ(named.code, 0) << named.err;
  const auto refused = [&](const Arguments& more, const std::vector<std::string>& says) {
    expect_message(train("refused", more), 2, says);
  };
  refused({"--class-weights", "B-TOTL=3"}, {"--class-weights", "B-TOTL", "did you mean B-TOTAL?"});
  refused({"--class-weights", "B-TOTAL"}, {"--class-weights", "'B-TOTAL'", "NAME=NUMBER", "JSON object"});
  refused({"--class-weights", "O=-1"}, {"--class-weights", "O=-1", "0 or more"});
  refused({"--class-weights", "balanced", "--class-weights", "O=2"}, {"--class-weights", "balanced and O", "only one"});
  refused({"--class-weights", "balanced", "--task", "question-answering"}, {"--class-weights", "question-answering"});
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
  expect_message(run(again), 2,
                 {"adapters already", "--lora-rank", "adapters of rank 2", "without adapters", "plimsoll merge"});
  expect_message(run({"merge", "--adapter", path("model"), "--output-dir", path("merged")}), 2,
                 {"not an adapter", "--adapter", path("model"), "adapter_config.json", "no merging"});
  expect_message(
      run({"merge", "--adapter", path("adapter"), "--output-dir", path("model")}), 2,
      {"would overwrite", "--output-dir", path("model"), "a directory that the command does not read", "pass a new"});
}

TEST_F(PartsTest, FrozenPartsAreInThePlan) {
  draw_pages();
  const auto plan = [&](const Arguments& more) {
    Arguments arguments = {"plan",     "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                           "--budget", "1GiB",    "--threads",       "1",      "--json"};
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
