#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "families/layoutlmv3/layoutlmv3.h"
#include "families/model_config.h"
#include "harness/paths.h"
#include "support/expect_error.h"
#include "support/layoutlmv3_model.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kGolden = test_data_dir() / "model";

ModelConfig parse(json object) {
  object["model_type"] = "layoutlmv3";
  return parse_config(object, "here/config.json");
}
LayoutLMv3Config values(const json& object) { return read_layoutlmv3(ConfigReader(object, "here/config.json")); }

// The keys that config_json adds itself.
const std::vector<std::string> kOwnKeys = {"model_type", "architectures", "id2label",    "label2id",
                                           "dtype",      "bos_token_id",  "eos_token_id"};

TEST(ParseConfig, DefaultsAreThoseOfTransformers) {
  // The expected text is LayoutLMv3Config().to_dict() of transformers 5.17.0.
  const json expected = json::parse(R"({
      "vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
      "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-05,
      "pad_token_id": 1, "max_2d_position_embeddings": 1024, "coordinate_size": 128, "shape_size": 128,
      "has_relative_attention_bias": true, "rel_pos_bins": 32, "max_rel_pos": 128, "rel_2d_pos_bins": 64,
      "max_rel_2d_pos": 256, "has_spatial_attention_bias": true, "text_embed": true, "visual_embed": true,
      "input_size": 224, "num_channels": 3, "patch_size": 16, "classifier_dropout": null,
      "model_type": "layoutlmv3", "bos_token_id": 0, "eos_token_id": 2,
      "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}})");
  json found = config_json(parse(json::object()));
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(found.at(key), value) << key;
  EXPECT_EQ(found.size(), expected.size() + 1);  // dtype; architectures are the task's
  // null means the same.
  json nulls;
  for (const auto& [key, value] : expected.items()) {
    if (key != "model_type" && key != "hidden_act") nulls[key] = nullptr;
  }
  found = config_json(parse(nulls));
  for (const char* key : {"vocab_size", "layer_norm_eps", "patch_size", "has_spatial_attention_bias", "id2label"}) {
    EXPECT_EQ(found.at(key), expected.at(key)) << key;
  }
}

TEST(ParseConfig, ReadsEachValue) {
  const json given = json::parse(R"({
      "vocab_size": 120, "hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 5, "intermediate_size": 77,
      "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0, "classifier_dropout": 0.5,
      "max_position_embeddings": 44, "type_vocab_size": 3, "initializer_range": 0.5, "layer_norm_eps": 0.001,
      "pad_token_id": 4, "max_2d_position_embeddings": 1025, "coordinate_size": 11, "shape_size": 8,
      "has_relative_attention_bias": false, "rel_pos_bins": 12, "max_rel_pos": 99, "has_spatial_attention_bias": false,
      "rel_2d_pos_bins": 20, "max_rel_2d_pos": 199, "input_size": 50, "patch_size": 10,
      "bos_token_id": 7, "eos_token_id": 8})");
  const LayoutLMv3Config config = values(given);
  const json found = config_json(parse(given));
  for (const auto& [key, value] : given.items()) EXPECT_EQ(found.at(key), value) << key;
  EXPECT_EQ(config.image().patches(), 25);
  EXPECT_EQ(config.image().visual_tokens(), 26);
  EXPECT_EQ(parse(given).encoder->facts().max_text_tokens(), 39);  // position ids 5 to 43
  EXPECT_EQ(config.head_dropout(), 0.5);
  EXPECT_EQ(values({{"hidden_dropout_prob", 0.25}}).head_dropout(), 0.25);
  EXPECT_EQ(values({{"patch_size", {32, 32}}}).patch_size, 32);
}

TEST(ParseConfig, TakesTheLargestThatKernelsTake) {
  for (const char* key : {"max_rel_pos", "max_rel_2d_pos", "max_position_embeddings"}) {
    EXPECT_EQ(config_json(parse({{key, 65536}})).at(key), 65536);
  }
}

TEST(ParseConfig, EachBadKeyNamesItself) {
  const std::multimap<std::string, json> bad = {{"vocab_size", 1},
                                                {"vocab_size", "50265"},
                                                {"vocab_size", 1e18},
                                                {"hidden_size", -768},
                                                {"hidden_size", 768.5},
                                                {"num_hidden_layers", 0},
                                                {"num_attention_heads", 0},
                                                {"num_attention_heads", 7},  // does not divide 768
                                                {"intermediate_size", 0},
                                                {"hidden_dropout_prob", 1.0},
                                                {"hidden_dropout_prob", "0.1"},
                                                {"attention_probs_dropout_prob", -0.1},
                                                {"classifier_dropout", 2},
                                                {"max_position_embeddings", 3},
                                                {"max_position_embeddings", 65537},
                                                {"type_vocab_size", 0},
                                                {"initializer_range", -1},
                                                {"layer_norm_eps", 0},
                                                {"pad_token_id", -1},
                                                {"pad_token_id", 50265},
                                                {"pad_token_id", 511},  // no position would be left
                                                {"max_2d_position_embeddings", 1000},
                                                {"coordinate_size", 64},  // 4 * 64 + 2 * 128 is not 768
                                                {"shape_size", 0},
                                                {"has_relative_attention_bias", 1},
                                                {"rel_pos_bins", 34},
                                                {"max_rel_pos", 8},  // 8 distances are exact
                                                {"has_spatial_attention_bias", "yes"},
                                                {"rel_2d_pos_bins", 66},
                                                {"max_rel_2d_pos", 16},
                                                {"max_rel_pos", 65537},  // beyond the kernels' tables
                                                {"max_rel_2d_pos", 65537},
                                                {"input_size", 225},
                                                {"input_size", 0},
                                                {"num_channels", 1},
                                                {"patch_size", 0},
                                                {"patch_size", json::array({16, 8})},
                                                {"patch_size", json::array({0, 0})},
                                                {"patch_size", json::array({-16, -16})},
                                                {"patch_size", json::array({16})},
                                                {"hidden_act", "relu"},
                                                {"hidden_act", nullptr},
                                                {"text_embed", false},
                                                {"visual_embed", false},
                                                {"num_labels", 0},
                                                {"id2label", json::array({"O"})},
                                                {"id2label", json::object()},
                                                {"id2label", {{"0", "O"}, {"2", "B"}}},
                                                {"id2label", {{"0", "O"}, {"one", "B"}}},
                                                {"id2label", {{"0", "O"}, {"1", 7}}},
                                                {"id2label", {{"0", "O"}, {"1", ""}}},
                                                {"id2label", {{"0", "O"}, {"00", "B"}}}};
  for (const auto& [key, value] : bad) {
    SCOPED_TRACE(value.dump());
    expect_error<DataError>(
        [&, k = key, v = value] {
          parse({{k, v}});
        },
        {"here/config.json, key \"" + key + "\"", "allowed: ", "found:   " + value.dump()});
  }
}

TEST(ParseConfig, OtherModelsAreRefused) {
  for (const json& object :
       {json{{"model_type", "layoutlmv2"}}, json::object(), json{{"model_type", 3}}, json::array(), json(1)}) {
    expect_error<DataError>(
        [&] { parse_config(object, "here/config.json"); },
        {"the model's family is not known", "here/config.json, key \"model_type\"", "\"layoutlmv3\""});
  }
}

TEST(ParseConfig, Labels) {
  EXPECT_EQ(parse({{"id2label", {{"1", "B"}, {"0", "O"}, {"2", "I"}}}}).task.labels,
            (std::vector<std::string>{"O", "B", "I"}));
  EXPECT_EQ(parse({{"num_labels", 3}}).task.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
  const std::shared_ptr<const Encoder> encoder = layoutlmv3_encoder({});
  EXPECT_FALSE(encoder->token_classifier(9).mlp);
  EXPECT_TRUE(encoder->token_classifier(10).mlp);
}

TEST(ConfigJson, TheProblemOfAPagesClassIsOneOfThree) {
  EXPECT_EQ(parse({{"problem_type", "regression"}}).task.problem_type, "regression");
  EXPECT_EQ(config_json(parse({{"problem_type", "regression"}})).at("problem_type"), "regression");
  EXPECT_EQ(parse({{"problem_type", nullptr}}).task.problem_type, "");
  expect_error<DataError>([] { parse({{"problem_type", "ranking"}}); }, {"problem_type", "ranking", "regression"});
}

TEST(ConfigJson, RoundTripKeepsWhatWeDoNotKnow) {
  const json given = {{"model_type", "layoutlmv3"},
                      {"hidden_size", 384},
                      {"coordinate_size", 64},
                      {"shape_size", 64},
                      {"our_secret", {{"nested", {1, 2, 3}}}},
                      {"transformers_version", "4.30.0"},
                      {"torch_dtype", "float16"},
                      {"num_labels", 3},
                      {"architectures", {"LayoutLMv3Model"}}};
  ModelConfig config = parse_config(given, "here");
  EXPECT_EQ(config.task.architecture, "");
  EXPECT_EQ(config_json(config).at("architectures"), given.at("architectures"));
  config.task.architecture = "TokenClassification";
  config.task.labels = {"O", "B-TOTAL", "I-TOTAL"};
  const json written = config_json(config);
  EXPECT_EQ(written.at("our_secret"), given.at("our_secret"));
  EXPECT_EQ(written.at("transformers_version"), "4.30.0");
  EXPECT_EQ(written.at("architectures"), json::array({"LayoutLMv3ForTokenClassification"}));
  EXPECT_EQ(written.at("dtype"), "float32");
  EXPECT_FALSE(written.contains("torch_dtype"));
  EXPECT_FALSE(written.contains("num_labels"));
  EXPECT_EQ(written.at("label2id"), (json{{"O", 0}, {"B-TOTAL", 1}, {"I-TOTAL", 2}}));
  const ModelConfig again = parse_config(written, "there");
  EXPECT_EQ(again.task.labels, config.task.labels);
  EXPECT_EQ(config_json(again), written);
}

TEST(ReadConfig, GoldenModel) {
  const ModelConfig config = read_config(kGolden / "linear");
  EXPECT_EQ(config.encoder->facts().hidden_size, 48);
  EXPECT_EQ(config.encoder->layer_outputs().size(), 2U);
  EXPECT_EQ(config.encoder->facts().image.patches(), 16);
  EXPECT_EQ(config.task.labels, (std::vector<std::string>{"O", "B-FIELD1", "I-FIELD1", "B-FIELD2", "I-FIELD2"}));
  EXPECT_FALSE(config.encoder->token_classifier(config.task.num_labels()).mlp);
  const ModelConfig mlp = read_config(kGolden / "mlp");
  EXPECT_TRUE(mlp.encoder->token_classifier(mlp.task.num_labels()).mlp);
}

// Printing or copying such a value would overflow the stack.
TEST(ReadConfig, EndlessNestingIsRefused) {
  const ScratchFolder folder;
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const char* key : {"vocab_size", "unknown"}) {
    folder.write("config.json", R"({"model_type": "layoutlmv3", ")" + std::string(key) + "\": " + deep + "}");
    expect_error<DataError>([&] { read_config(folder.path()); }, {"config.json", "deeper"});
  }
}

TEST(ReadConfig, WhatIsNotThereOrNotJson) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  expect_error<DataError>([&] { read_config(folder); }, {folder + "/config.json"});
  std::ofstream(folder + "/config.json") << R"({"model_type": "layoutlmv3", "hidden_size": )";
  expect_error<DataError>([&] { read_config(folder); }, {"ends too early", folder + "/config.json"});
}

// The numbers are those of LayoutLMv3Model, RobertaModel, LayoutLMModel, LiltModel, LlamaModel and GPT2Model in
// transformers 5.17.0, without poolers, with the preset's shape.
TEST(Presets, ParametersAreAsManyAsInTransformers) {
  const std::map<std::string, std::int64_t> expected = {{"layoutlmv3-tiny", 5465056},   {"layoutlmv3-small", 12737792},
                                                        {"layoutlmv3-base", 125326976}, {"layoutlmv3-large", 356005376},
                                                        {"roberta-tiny", 5098752},      {"roberta-small", 12419328},
                                                        {"roberta-base", 124055040},    {"roberta-large", 354310144},
                                                        {"layoutlm-tiny", 3596544},     {"layoutlm-small", 9414912},
                                                        {"layoutlm-base", 112037376},   {"layoutlm-large", 338286592},
                                                        {"lilt-tiny", 5193448},         {"lilt-small", 12754064},
                                                        {"lilt-base", 130164416},       {"llama-tiny", 3275232},
                                                        {"llama-small", 8505792},       {"gpt2-tiny", 5146848},
                                                        {"gpt2-mini", 12515520},        {"gpt2", 124439808},
                                                        {"gpt2-medium", 354823168},     {"gpt2-large", 774030080}};
  EXPECT_EQ(preset_names().size(), expected.size());
  for (const std::string& name : preset_names()) {
    EXPECT_TRUE(is_preset(name));
    std::int64_t count = 0;
    for (const ParameterSpec& spec : definition_of(preset_config(name)).specs()) {
      if (!spec.is_head()) count += spec.shape.elements();
    }
    EXPECT_EQ(count, expected.at(name)) << name;
    // A preset is a config that can be read back.
    const json written = config_json(preset_config(name));
    EXPECT_EQ(config_json(parse_config(written, name)), written);
  }
}

TEST(Presets, BaseHasThePublishedShape) {
  const fs::path published = shared_dir() / "data" / "layoutlmv3-base";
  if (!fs::exists(published / "config.json")) GTEST_SKIP() << published << " is not here";
  ModelConfig config = read_config(published), preset = preset_config("layoutlmv3-base");
  config.task.labels = preset.task.labels;
  const json expected = config_json(config), found = config_json(preset);
  for (const auto& [key, value] : found.items()) EXPECT_EQ(value, expected.at(key)) << key;
}

TEST(Presets, SayWhereTheirShapeIsPublished) {
  EXPECT_TRUE(is_published("layoutlm-base"));
  EXPECT_EQ(published_model("layoutlm-base"), "microsoft/layoutlm-base-uncased");
  EXPECT_FALSE(is_published("lilt-small"));
  EXPECT_EQ(published_model("lilt-small"), "SCUT-DLVCLab/lilt-roberta-en-base");
  EXPECT_FALSE(is_published("bert-base"));
}

TEST(Presets, OthersAreNamed) {
  EXPECT_FALSE(is_preset("layoutlmv3"));
  EXPECT_FALSE(is_preset(""));
  expect_error<UsageError>([] { preset_config("layoutlmv2-base"); },
                           {"layoutlmv2-base", "layoutlmv3-tiny, layoutlmv3-small, layoutlmv3-base, layoutlmv3-large"});
}

}  // namespace
}  // namespace plimsoll::test
