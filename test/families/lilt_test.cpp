// LiLT's own facts; its numbers are compared with transformers by tools/check_families.py.
#include "families/lilt/lilt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/autodiff.h"
#include "families/model_config.h"
#include "support/expect_error.h"
#include "support/layoutlmv3_model.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

ModelConfig config_of(json keys = json::object()) {
  keys["model_type"] = "lilt";
  return parse_config(keys, "here/config.json");
}

json small() {
  return {{"vocab_size", 30},         {"hidden_size", 24},       {"num_hidden_layers", 2},       {"pad_token_id", 1},
          {"num_attention_heads", 2}, {"intermediate_size", 40}, {"max_position_embeddings", 20}};
}

// The expected values are those of LiltConfig() of transformers 5.17.0.
TEST(Lilt, DefaultsAreThoseOfTransformers) {
  const json written = config_json(config_of());
  const json expected = {{"vocab_size", 30522},           {"hidden_size", 768},
                         {"num_hidden_layers", 12},       {"num_attention_heads", 12},
                         {"intermediate_size", 3072},     {"hidden_act", "gelu"},
                         {"hidden_dropout_prob", 0.1},    {"attention_probs_dropout_prob", 0.1},
                         {"classifier_dropout", nullptr}, {"max_position_embeddings", 512},
                         {"type_vocab_size", 2},          {"initializer_range", 0.02},
                         {"layer_norm_eps", 1e-12},       {"pad_token_id", 0},
                         {"channel_shrink_ratio", 4},     {"max_2d_position_embeddings", 1024}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(written.at(key), value) << key;
  EXPECT_EQ(config_json(parse_config(written, "again")), written);
}

TEST(Lilt, NamesAndPositionsAreTheFamilys) {
  const ModelConfig config = config_of(small());
  EXPECT_EQ(config.encoder->facts().max_text_tokens(), 18);  // position ids 2 to 19
  EXPECT_EQ(config.encoder->facts().coordinates, 1024);
  EXPECT_EQ(config.encoder->facts().image.size, 0);
  const auto specs = config.encoder->specs({});
  ASSERT_EQ(specs.size(), 14U + 2 * 32);
  EXPECT_EQ(specs[5].name, "lilt.layout_embeddings.x_position_embeddings.weight");
  EXPECT_EQ(specs[5].shape, (Shape{1024, 4}));
  EXPECT_EQ(specs[9].name, "lilt.layout_embeddings.box_position_embeddings.weight");
  EXPECT_EQ(specs[9].shape, (Shape{20, 6}));
  EXPECT_EQ(specs[20].name, "lilt.encoder.layer.0.attention.self.layout_query.weight");
  EXPECT_EQ(specs.back().name, "lilt.encoder.layer.1.layout_output.LayerNorm.bias");
}

// As in transformers, where their gradients are None.
TEST(Lilt, WhatNobodyReadsOfTheLastLayerDoesNotTrain) {
  const ModelConfig config = config_of(small());
  std::vector<std::string> still;
  for (const ParameterSpec& spec : config.encoder->specs({})) {
    if (!spec.trains) still.push_back(spec.name.substr(spec.name.find("layer.")));
  }
  EXPECT_THAT(still,
              testing::ElementsAre(
                  "layer.1.attention.self.layout_value.weight", "layer.1.attention.self.layout_value.bias",
                  "layer.1.attention.layout_output.dense.weight", "layer.1.attention.layout_output.dense.bias",
                  "layer.1.attention.layout_output.LayerNorm.weight", "layer.1.attention.layout_output.LayerNorm.bias",
                  "layer.1.layout_intermediate.dense.weight", "layer.1.layout_intermediate.dense.bias",
                  "layer.1.layout_output.dense.weight", "layer.1.layout_output.dense.bias",
                  "layer.1.layout_output.LayerNorm.weight", "layer.1.layout_output.LayerNorm.bias"));
  EXPECT_EQ(config.encoder->linear_maps().size(), 12U + 8U);
  const ModelGraph model = definition_of(config).build({.samples = 2, .text_rows = 9}, true);
  EXPECT_EQ(model.trained.size(), definition_of(config).specs().size() - still.size());
  std::vector<ValueId> wanted(model.trained);
  Graph graph = model.graph;
  const Seed seed = loss_seed(graph, model.loss);
  EXPECT_EQ(append_backward(graph, std::span(&seed, 1), wanted).size(), wanted.size());
}

// Attention divides by the root of the common size; each stream's scores have the root of its own.
TEST(Lilt, ScoresAreScaledForTheirStream) {
  const ModelGraph model = definition_of(config_of(small())).build({.samples = 2, .text_rows = 9}, true);
  const auto queries =
      std::ranges::find(model.graph.nodes(), "lilt.encoder.layer.0.attention.self.both_query", &Node::name);
  ASSERT_NE(queries, model.graph.nodes().end());
  const auto& form = std::get<HeadsAttributes>(queries->attributes);
  EXPECT_EQ(form.heads, 2);
  EXPECT_EQ(form.first_size, 12);
  EXPECT_EQ(form.second_size, 3);
  EXPECT_DOUBLE_EQ(form.first_factor / std::sqrt(15), 1 / std::sqrt(12));
  EXPECT_DOUBLE_EQ(form.second_factor / std::sqrt(15), 1 / std::sqrt(3));
}

TEST(Lilt, RefusesWhatItCannotCompute) {
  const std::multimap<std::string, json> bad = {{"hidden_act", "relu"},
                                                {"position_embedding_type", "relative_key"},
                                                {"is_decoder", true},
                                                {"num_attention_heads", 5},
                                                {"max_2d_position_embeddings", 1025},
                                                {"hidden_size", 128 * 12 + 4 * 12 - 16},
                                                {"channel_shrink_ratio", 5},
                                                {"channel_shrink_ratio", 128},
                                                {"pad_token_id", 511}};
  for (const auto& [key, value] : bad) {
    json keys;
    keys[key] = value;
    if (key == "hidden_size") keys["num_attention_heads"] = 1;
    expect_error<DataError>([&] { config_of(keys); },
                            {"here/config.json, key \"" + key + "\"", "found:   " + value.dump()});
  }
}

}  // namespace
}  // namespace plimsoll::test
