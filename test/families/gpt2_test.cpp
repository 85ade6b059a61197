// GPT-2's own facts; its numbers are compared with transformers by test_train and tools/check_families.py.
#include "families/gpt2/gpt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "families/model_config.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

ModelConfig config_of(json keys = json::object()) {
  keys["model_type"] = "gpt2";
  return parse_config(keys, "here/config.json");
}

// The expected values are those of GPT2Config() of transformers 5.17.0.
TEST(Gpt2, DefaultsAreThoseOfTransformers) {
  const json written = config_json(config_of());
  EXPECT_EQ(written.at("vocab_size"), 50257);
  EXPECT_EQ(written.at("n_positions"), 1024);
  EXPECT_EQ(written.at("n_embd"), 768);
  EXPECT_EQ(written.at("n_layer"), 12);
  EXPECT_EQ(written.at("n_head"), 12);
  EXPECT_TRUE(written.at("n_inner").is_null());
  EXPECT_EQ(written.at("activation_function"), "gelu_new");
  EXPECT_EQ(written.at("layer_norm_epsilon"), 1e-5);
  EXPECT_EQ(written.at("tie_word_embeddings"), true);
  EXPECT_EQ(config_json(parse_config(written, "again")), written);
  EXPECT_EQ(config_json(config_of({{"n_inner", 5}})).at("n_inner"), 5);
}

TEST(Gpt2, ParametersAreThoseOfTransformers) {
  const ModelConfig config =
      config_of({{"vocab_size", 10}, {"n_positions", 7}, {"n_embd", 4}, {"n_layer", 2}, {"n_head", 2}});
  const std::vector<ParameterSpec> specs = config.encoder->specs({});
  std::vector<std::string> names;
  std::map<std::string, ParameterSpec> by_name;
  for (const ParameterSpec& spec : specs) {
    if (spec.layer != 1) names.push_back(spec.name);
    by_name[spec.name] = spec;
  }
  EXPECT_THAT(names, testing::ElementsAre("transformer.wte.weight", "transformer.wpe.weight",
                                          "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias",
                                          "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias",
                                          "transformer.h.0.attn.c_proj.weight", "transformer.h.0.attn.c_proj.bias",
                                          "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
                                          "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_fc.bias",
                                          "transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias",
                                          "transformer.ln_f.weight", "transformer.ln_f.bias"));
  const ParameterSpec& joint = by_name.at("transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(joint.shape, (Shape{12, 4}));
  EXPECT_EQ(joint.file_shape, (Shape{4, 12}));
  EXPECT_TRUE(joint.transposed);
  EXPECT_DOUBLE_EQ(joint.normal_std, 0.02);
  EXPECT_DOUBLE_EQ(by_name.at("transformer.h.1.mlp.c_proj.weight").normal_std, 0.02 / 2);
}

TEST(Gpt2, RefusesWhatTheGraphDoesNotCompute) {
  const auto refused = [](const json& keys, std::string_view key) {
    expect_error<DataError>([&] { config_of(keys); }, {key});
  };
  refused({{"activation_function", "relu"}}, "activation_function");
  refused({{"scale_attn_weights", false}}, "scale_attn_weights");
  refused({{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx");
  refused({{"add_cross_attention", true}}, "add_cross_attention");
  refused({{"n_head", 5}}, "n_head");
}

}  // namespace
}  // namespace plimsoll::test
