// The text families' own facts; their numbers are compared with transformers by tools/check_families.py.
#include "families/bert/bert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "families/model_config.h"
#include "support/expect_error.h"
#include "support/layoutlmv3_model.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

ModelConfig config_of(const std::string& model_type, json keys = json::object()) {
  keys["model_type"] = model_type;
  return parse_config(keys, "here/config.json");
}

json small() {
  return {{"vocab_size", 30},         {"hidden_size", 8},        {"num_hidden_layers", 2},
          {"num_attention_heads", 2}, {"intermediate_size", 12}, {"max_position_embeddings", 20}};
}

// The expected values are those of BertConfig(), RobertaConfig() and XLMRobertaConfig() of transformers 5.17.0.
TEST(Bert, DefaultsAreThoseOfTransformers) {
  for (const char* type : {"bert", "roberta", "xlm-roberta"}) {
    const bool is_bert = std::string(type) == "bert";
    const json written = config_json(config_of(type));
    EXPECT_EQ(written.at("model_type"), type);
    EXPECT_EQ(written.at("hidden_size"), 768);
    EXPECT_EQ(written.at("num_hidden_layers"), 12);
    EXPECT_EQ(written.at("intermediate_size"), 3072);
    EXPECT_EQ(written.at("max_position_embeddings"), 512);
    EXPECT_EQ(written.at("type_vocab_size"), 2);
    EXPECT_EQ(written.at("layer_norm_eps"), 1e-12);
    EXPECT_EQ(written.at("pad_token_id"), is_bert ? 0 : 1);
    EXPECT_EQ(written.at("vocab_size"), std::string(type) == "roberta" ? 50265 : 30522);
    EXPECT_EQ(written.contains("bos_token_id"), !is_bert);
    EXPECT_EQ(config_json(parse_config(written, "again")), written);
  }
  ModelConfig config = config_of("xlm-roberta", {{"architectures", {"XLMRobertaForSequenceClassification"}}});
  EXPECT_EQ(config.task.architecture, "SequenceClassification");
  config.task.architecture = "TokenClassification";
  EXPECT_EQ(config_json(config).at("architectures"), json::array({"XLMRobertaForTokenClassification"}));
}

TEST(Bert, NamesAndPositionsAreTheFamilys) {
  const ModelConfig bert = config_of("bert", small()), roberta = config_of("xlm-roberta", small());
  EXPECT_EQ(bert.encoder->facts().max_text_tokens(), 20);
  EXPECT_EQ(roberta.encoder->facts().max_text_tokens(), 18);  // position ids 2 to 19
  EXPECT_EQ(roberta.encoder->prefix(), "roberta");
  const auto specs = bert.encoder->specs({});
  EXPECT_EQ(specs.size(), 5U + 2 * 16);
  EXPECT_EQ(specs.front().name, "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(specs.back().name, "bert.encoder.layer.1.output.LayerNorm.bias");
  // RoBERTa's table of positions has a row for padding, which begins and stays at zero; BERT's has none.
  EXPECT_EQ(specs[1].init, ParameterSpec::Init::kNormal);
  EXPECT_EQ(roberta.encoder->specs({})[1].init, ParameterSpec::Init::kNormalPaddingRow);
}

TEST(Bert, ReadsTextAlone) {
  const ModelGraph model = definition_of(config_of("bert", small())).build({.samples = 2, .text_rows = 9}, true);
  for (const Value& value : model.graph.values()) {
    for (const std::string_view name : {input::kBbox, input::kPixelValues, input::kRelativeCoordinates}) {
      EXPECT_NE(value.name, name);
    }
    EXPECT_FALSE(value.name.starts_with("unused")) << value.name;
  }
  const auto attention = std::ranges::count(model.graph.nodes(), Op::kAttention, &Node::op);
  EXPECT_EQ(attention, 2);
  EXPECT_EQ(model.trained.size(), definition_of(config_of("bert", small())).specs().size());
}

TEST(Bert, RefusesWhatItCannotCompute) {
  const std::multimap<std::string, json> bad = {{"hidden_act", "gelu_new"}, {"position_embedding_type", "relative_key"},
                                                {"is_decoder", true},       {"add_cross_attention", true},
                                                {"num_attention_heads", 5}, {"max_position_embeddings", 65537},
                                                {"pad_token_id", 30522}};
  for (const auto& [key, value] : bad) {
    json keys;
    keys[key] = value;
    expect_error<DataError>([&] { config_of("bert", keys); },
                            {"here/config.json, key \"" + key + "\"", "found:   " + value.dump()});
  }
  expect_error<DataError>([] { config_of("robert"); },
                          {"\"robert\"", "\"roberta\", \"xlm-roberta\"", "is the nearest"});
}

}  // namespace
}  // namespace plimsoll::test
