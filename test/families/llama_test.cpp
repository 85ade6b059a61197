// The decoders' own facts; their numbers are compared with transformers by tools/check_families.py.
#include "families/llama/llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/model_config.h"
#include "support/expect_error.h"
#include "tasks/causal_lm/head.h"
#include "tasks/question_answering/head.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

json config_keys(const std::string& model_type, json keys = json::object()) {
  keys["model_type"] = model_type;
  return keys;
}

ModelConfig config_of(const std::string& model_type, const json& keys = json::object()) {
  return parse_config(config_keys(model_type, keys), "here/config.json");
}

// The expected values are those of LlamaConfig(), MistralConfig(), Qwen2Config() and Qwen3Config() of transformers
// 5.17.0.
TEST(Llama, DefaultsAreThoseOfTransformers) {
  for (const std::string type : {"llama", "mistral", "qwen2", "qwen3"}) {
    const bool is_llama = type == "llama", is_mistral = type == "mistral";
    const json written = config_json(config_of(type));
    EXPECT_EQ(written.at("model_type"), type);
    EXPECT_EQ(written.at("vocab_size"), is_llama || is_mistral ? 32000 : 151936);
    EXPECT_EQ(written.at("hidden_size"), 4096);
    EXPECT_EQ(written.at("intermediate_size"), is_llama ? 11008 : is_mistral ? 14336 : 22016);
    EXPECT_EQ(written.at("num_hidden_layers"), 32);
    EXPECT_EQ(written.at("num_attention_heads"), 32);
    EXPECT_EQ(written.at("num_key_value_heads"), is_mistral ? 8 : 32);
    EXPECT_EQ(written.at("head_dim"), 128);
    EXPECT_EQ(written.at("max_position_embeddings"), is_llama ? 2048 : is_mistral ? 131072 : 32768);
    EXPECT_EQ(written.at("rms_norm_eps"), 1e-6);
    EXPECT_EQ(written.at("attention_dropout"), 0);
    EXPECT_TRUE(written.at("pad_token_id").is_null());
    EXPECT_EQ(written.at("rope_parameters"), (json{{"rope_type", "default"}, {"rope_theta", 10000.0}}));
    EXPECT_EQ(config_json(parse_config(written, "again")), written);
  }
}

// In `transformers` a row sees itself and the sliding_window - 1 rows before it, so that texts up to that length are
// computed as without a window; longer ones are not taken here.
TEST(Llama, AWindowLimitsTexts) {
  const auto limit = [](const char* type, json keys) {
    const EncoderFacts facts = config_of(type, keys).encoder->facts();
    const bool is_window = facts.limited_by == "sliding_window";
    EXPECT_EQ(is_window, facts.positions != 32768) << keys;
    return facts.positions;
  };
  const json long_one = {{"max_position_embeddings", 32768}};
  const auto with = [&long_one](json more) {
    more.update(long_one);
    return more;
  };
  EXPECT_EQ(limit("mistral", with({})), 4096);
  EXPECT_EQ(limit("mistral", with({{"sliding_window", nullptr}})), 32768);
  EXPECT_EQ(limit("mistral", with({{"sliding_window", 1024}})), 1024);
  EXPECT_EQ(limit("mistral", with({{"sliding_window", 65536}})), 32768);
  EXPECT_EQ(limit("llama", with({{"sliding_window", 1024}})), 32768);  // which LlamaModel does not read
  EXPECT_EQ(limit("qwen2", with({{"sliding_window", 1024}})), 32768);
  EXPECT_EQ(limit("qwen2", with({{"sliding_window", 1024}, {"use_sliding_window", true}})), 1024);
  // The layers before the 28th have none, by default.
  const json used = {{"use_sliding_window", true}, {"num_hidden_layers", 2}};
  EXPECT_EQ(limit("qwen3", with(used)), 32768);
  json typed = used;
  typed["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_EQ(limit("qwen3", with(typed)), 4096);
  EXPECT_EQ(config_json(config_of("qwen3", typed)).at("layer_types"), typed["layer_types"]);
  typed["use_sliding_window"] = false;
  expect_error<DataError>([&] { config_of("qwen3", typed); }, {"layer_types", "use a model without it"});
  typed["layer_types"] = {"full_attention", "chunked_attention"};
  expect_error<DataError>([&] { config_of("llama", typed); }, {"layer_types"});
}

TEST(Llama, ParametersAreThoseOfTransformers) {
  const json small = {{"vocab_size", 10},         {"hidden_size", 16},        {"num_hidden_layers", 1},
                      {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 8},
                      {"intermediate_size", 12}};
  const auto names_of = [&](const char* type) {
    std::vector<std::string> names;
    for (const ParameterSpec& spec : config_of(type, small).encoder->specs({})) names.push_back(spec.name);
    return names;
  };
  EXPECT_THAT(names_of("qwen3"),
              testing::ElementsAre("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
                                   "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight",
                                   "model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.q_norm.weight",
                                   "model.layers.0.self_attn.k_norm.weight", "model.layers.0.mlp.gate_proj.weight",
                                   "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
                                   "model.layers.0.input_layernorm.weight",
                                   "model.layers.0.post_attention_layernorm.weight", "model.norm.weight"));
  EXPECT_THAT(names_of("qwen2"), testing::Contains("model.layers.0.self_attn.v_proj.bias"));
  EXPECT_THAT(names_of("qwen2"), testing::Not(testing::Contains("model.layers.0.self_attn.o_proj.bias")));
  EXPECT_THAT(names_of("llama"), testing::SizeIs(11));
}

// What a head multiplies rows by is bfloat16 in such a run, whether it is looked up, too, or not; a table that is only
// looked up is not.
TEST(Llama, WhatScoresTokensIsMultipliedInBf16) {
  const json small = {{"vocab_size", 10},         {"hidden_size", 16},        {"num_hidden_layers", 1},
                      {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 8},
                      {"intermediate_size", 12}};
  for (const bool tied : {false, true}) {
    json keys = small;
    keys["tie_word_embeddings"] = tied;
    const ModelDefinition model = causal_language_model(config_of("llama", keys).encoder);
    std::vector<std::string> halves;
    for (const ParameterSpec& spec : model.specs()) {
      const bool layers = spec.part == ParameterSpec::Part::kEncoderMatrix;
      if (!layers && parameter_type(spec, DType::kBF16, {}) == DType::kBF16) halves.push_back(spec.name);
      EXPECT_EQ(parameter_type(spec, DType::kF16, {}), DType::kF32) << spec.name;
    }
    EXPECT_THAT(halves, testing::ElementsAre(tied ? "model.embed_tokens.weight" : "lm_head.weight"));
    const ModelGraph graph = model.build({.samples = 1, .text_rows = 8}, false, {}, DType::kBF16);
    EXPECT_EQ(graph.graph.type(graph.loss).dtype, DType::kF32);
    EXPECT_EQ(graph.graph.type(graph.logits).dtype, DType::kF32);
    const ModelGraph next = next_token_model(config_of("llama", keys).encoder)
                                .build({.samples = 1, .text_rows = 8}, false, {}, DType::kBF16);
    EXPECT_EQ(next.graph.type(next.logits).dtype, DType::kF32);
  }
}

// The expected numbers are those of transformers' ROPE_INIT_FUNCTIONS.
TEST(Llama, FrequenciesAreThoseOfTransformers) {
  RotaryForm form;
  EXPECT_THAT(rotary_frequencies(form, 8),
              testing::ElementsAre(1.0F, testing::FloatEq(0.1F), testing::FloatEq(0.01F), testing::FloatEq(0.001F)));
  form = {.type = RotaryForm::Type::kLinear, .factor = 4};
  EXPECT_THAT(rotary_frequencies(form, 8),
              testing::ElementsAre(0.25F, testing::FloatEq(0.02500000037252903F),
                                   testing::FloatEq(0.0024999999441206455F), testing::FloatEq(0.0002500000118743628F)));
  const json keys = {{"rope_parameters",
                      {{"rope_type", "llama3"},
                       {"rope_theta", 500000.0},
                       {"factor", 32.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}}}};
  const json whole = config_keys("llama", keys);
  const LlamaConfig config = read_llama(ConfigReader(whole, "here"), llama_kind());
  EXPECT_THAT(rotary_frequencies(config.rotary, 8), testing::ElementsAre(1.0F, testing::FloatEq(0.001175188459455967F),
                                                                         testing::FloatEq(4.4194170186528936e-05F),
                                                                         testing::FloatEq(1.6619674170215148e-06F)));
  // As files before transformers 5 say it.
  const json older = config_keys("llama", {{"rope_theta", 500000.0}, {"rope_scaling", keys.at("rope_parameters")}});
  EXPECT_EQ(read_llama(ConfigReader(older, "here"), llama_kind()).rotary, config.rotary);
  // `rope_scaling` that was added by hand counts, an empty one does not; the length is the model's if none is named.
  json both = older;
  both["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10.0}};
  EXPECT_EQ(read_llama(ConfigReader(both, "here"), llama_kind()).rotary, config.rotary);
  both["rope_scaling"] = json::object();
  EXPECT_EQ(read_llama(ConfigReader(both, "here"), llama_kind()).rotary, (RotaryForm{.theta = 10}));
  both = older;
  both["rope_scaling"].erase("original_max_position_embeddings");
  both["max_position_embeddings"] = 64;
  EXPECT_EQ(read_llama(ConfigReader(both, "here"), llama_kind()).rotary, config.rotary);
}

TEST(Llama, ReadsNamesAndNullsAsTransformersDoes) {
  const json keys =
      config_keys("qwen2", {{"num_key_value_heads", nullptr}, {"hidden_act", "swish"}, {"rope_scaling", nullptr}});
  const LlamaConfig config = read_llama(ConfigReader(keys, "here"), qwen2_kind());
  EXPECT_EQ(config.num_key_value_heads, config.num_attention_heads);
}

TEST(Llama, RefusesWhatTheGraphDoesNotCompute) {
  const auto refused = [](const json& keys, std::string_view key) {
    expect_error<DataError>([&] { config_of("qwen2", keys); }, {key});
  };
  refused({{"hidden_act", "gelu"}}, "hidden_act");
  refused({{"partial_rotary_factor", 0.5}}, "partial_rotary_factor");
  refused({{"layer_types", {"full_attention", "sliding_attention"}}}, "layer_types");
  refused({{"num_key_value_heads", 5}}, "num_key_value_heads");
  refused({{"rope_parameters", {{"rope_type", "yarn"}}}}, "rope_type");
  refused({{"rope_parameters", {{"rope_type", 3}}}}, "rope_type");
  refused({{"rope_scaling", {{"type", json::array({"linear"})}}}}, "\"type\"");
  refused({{"rope_scaling", {{"type", "yarn"}}}, {"rope_parameters", {{"rope_type", "default"}}}}, "\"type\"");
  refused({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}, "partial_rotary_factor");
  refused({{"rope_parameters", {{"rope_type", "linear"}}}}, "\"factor\"");
  refused({{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}}}}, "high_freq_factor");
  refused({{"head_dim", 7}}, "head_dim");
  const ModelConfig config = config_of("llama");
  expect_error<UsageError>([&] { question_answering(config.encoder); }, {"question-answering"});
}

}  // namespace
}  // namespace plimsoll::test
