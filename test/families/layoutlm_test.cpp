// LayoutLM's own facts; its numbers are compared with transformers by tools/check_families.py.
#include "families/layoutlm/layoutlm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "families/model_config.h"
#include "support/expect_error.h"
#include "support/layoutlmv3_model.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

ModelConfig config_of(json keys = json::object()) {
  keys["model_type"] = "layoutlm";
  return parse_config(keys, "here/config.json");
}

json small() {
  return {{"vocab_size", 30},         {"hidden_size", 8},        {"num_hidden_layers", 2},
          {"num_attention_heads", 2}, {"intermediate_size", 12}, {"max_position_embeddings", 20}};
}

// The expected values are those of LayoutLMConfig() of transformers 5.17.0.
TEST(LayoutLM, DefaultsAreThoseOfTransformers) {
  const json written = config_json(config_of());
  const json expected = {{"vocab_size", 30522},
                         {"hidden_size", 768},
                         {"num_hidden_layers", 12},
                         {"num_attention_heads", 12},
                         {"intermediate_size", 3072},
                         {"hidden_act", "gelu"},
                         {"hidden_dropout_prob", 0.1},
                         {"attention_probs_dropout_prob", 0.1},
                         {"max_position_embeddings", 512},
                         {"type_vocab_size", 2},
                         {"initializer_range", 0.02},
                         {"layer_norm_eps", 1e-12},
                         {"pad_token_id", 0},
                         {"max_2d_position_embeddings", 1024}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(written.at(key), value) << key;
  EXPECT_FALSE(written.contains("classifier_dropout"));
  EXPECT_EQ(config_json(parse_config(written, "again")), written);
}

TEST(LayoutLM, NamesPositionsAndBoxesAreTheFamilys) {
  const ModelConfig config = config_of(small());
  const EncoderFacts facts = config.encoder->facts();
  EXPECT_EQ(facts.max_text_tokens(), 20);
  EXPECT_EQ(facts.coordinates, 1024);
  EXPECT_EQ(facts.image.size, 0);
  EXPECT_TRUE(facts.token.types_pairs);
  EXPECT_EQ(facts.token.separator_box, 1000);
  const auto specs = config.encoder->specs({});
  ASSERT_EQ(specs.size(), 9U + 2 * 16);
  EXPECT_EQ(specs[2].name, "layoutlm.embeddings.x_position_embeddings.weight");
  EXPECT_EQ(specs[5].name, "layoutlm.embeddings.w_position_embeddings.weight");
  EXPECT_EQ(specs[5].shape, (Shape{1024, 8}));
  EXPECT_EQ(specs.back().name, "layoutlm.encoder.layer.1.output.LayerNorm.bias");
  EXPECT_EQ(config.encoder->sequence_classifier().pooler, "layoutlm.pooler.dense");
  EXPECT_EQ(config.encoder->span_classifier().name, "qa_outputs");
}

TEST(LayoutLM, AddsBoxesAndReadsNoPicture) {
  const ModelGraph model = definition_of(config_of(small())).build({.samples = 2, .text_rows = 9}, true);
  const auto spatial = std::ranges::find(model.graph.nodes(), Op::kSpatialEmbedding, &Node::op);
  ASSERT_NE(spatial, model.graph.nodes().end());
  EXPECT_TRUE(std::get<SpatialAttributes>(spatial->attributes).sums);
  EXPECT_EQ(model.graph.type(spatial->outputs[0]).shape, (Shape{9, 8}));
  for (const Value& value : model.graph.values()) EXPECT_NE(value.name, input::kPixelValues);
  EXPECT_EQ(model.trained.size(), definition_of(config_of(small())).specs().size());
}

TEST(LayoutLM, RefusesWhatItCannotCompute) {
  const std::multimap<std::string, json> bad = {
      {"hidden_act", "relu"},     {"position_embedding_type", "relative_key"}, {"is_decoder", true},
      {"num_attention_heads", 5}, {"max_2d_position_embeddings", 1000},        {"max_2d_position_embeddings", 1025}};
  for (const auto& [key, value] : bad) {
    json keys;
    keys[key] = value;
    expect_error<DataError>([&] { config_of(keys); },
                            {"here/config.json, key \"" + key + "\"", "found:   " + value.dump()});
  }
}

}  // namespace
}  // namespace plimsoll::test
