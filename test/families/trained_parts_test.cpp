// Tests which parameters train: patterns, adapters, and requests that are refused.
#include "model/trained_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/parameters.h"
#include "support/expect_error.h"
#include "support/layoutlmv3_model.h"

namespace plimsoll::test {
namespace {

LabelledConfig tiny() {
  LabelledConfig config = layoutlmv3_preset("layoutlmv3-tiny");
  config.labels = {"O", "B-A", "I-A"};
  return config;
}

std::vector<LinearMap> maps_of(const LabelledConfig& config) { return layoutlmv3(config).encoder().linear_maps(); }

std::set<std::string> trained(const ModelOptions& options) {
  std::set<std::string> names;
  for (const ParameterSpec& spec : layoutlmv3(tiny()).specs(options)) {
    if (spec.trains) names.insert(spec.name);
  }
  return names;
}

TEST(TrainedParts, PatternsMatchWholeNamesAsAShellDoes) {
  const std::string name = "layoutlmv3.encoder.layer.3.output.dense.bias";
  for (const char* pattern : {"*", "layoutlmv3.encoder.layer.3.output.dense.bias", "layoutlmv3.encoder.*", "*.bias",
                              "layoutlmv3.encoder.layer.[0-5].*", "layoutlmv3.encoder.layer.?.output.dense.*"}) {
    EXPECT_TRUE(matches_pattern(pattern, name)) << pattern;
  }
  for (const char* pattern : {"", "layoutlmv3", "layoutlmv3.encoder.layer.[!0-5].*", "layoutlmv3.encoder.layer.[4-5].*",
                              "encoder.*", "*.weight", "LAYOUTLMV3.*"}) {
    EXPECT_FALSE(matches_pattern(pattern, name)) << pattern;
  }
}

TEST(TrainedParts, FreezingTakesWhatMatchesAndNothingElse) {
  const std::set<std::string> all = trained({});
  const std::set<std::string> left = trained({.freeze = {"layoutlmv3.embeddings.*", "*.LayerNorm.bias"}});
  for (const std::string& name : all) {
    const bool frozen = name.starts_with("layoutlmv3.embeddings.") || name.ends_with(".LayerNorm.bias");
    EXPECT_EQ(left.contains(name), !frozen) << name;
  }
  // Parameters that never train do not begin to.
  EXPECT_FALSE(left.contains("layoutlmv3.encoder.rel_pos_bias.weight"));
  EXPECT_LT(trained_parameter_count(layoutlmv3(tiny()).specs({.freeze = {"layoutlmv3.embeddings.*"}})),
            trained_parameter_count(layoutlmv3(tiny()).specs()));
}

TEST(TrainedParts, AdaptersAndTheHeadTrainAlone) {
  ModelOptions options{.lora = {.rank = 2, .alpha = 4}};
  options.lora.modules = lora_modules(maps_of(tiny()), {"query"});
  const std::string query = "layoutlmv3.encoder.layer.0.attention.self.query";
  const std::set<std::string> names = trained(options);
  EXPECT_TRUE(names.contains(query + ".lora_A.weight"));
  EXPECT_TRUE(names.contains(query + ".lora_B.weight"));
  EXPECT_TRUE(names.contains("classifier.weight"));
  EXPECT_FALSE(names.contains(query + ".weight"));
  EXPECT_EQ(names.size(), 2 + 2 * static_cast<std::size_t>(tiny().num_hidden_layers));
  const ModelGraph model = layoutlmv3(tiny()).build({.samples = 1, .text_rows = 8}, true, options, DType::kBF16);
  EXPECT_EQ(model.trained.size(), names.size());
  // Adapters keep F32 beside weights of BF16.
  EXPECT_EQ(model.graph.type(model.graph.find_source(query + ".lora_A.weight")).dtype, DType::kF32);
  EXPECT_EQ(model.graph.type(model.graph.find_source(query + ".weight")).dtype, DType::kBF16);
}

TEST(TrainedParts, TheBaseModelsDropoutKeepsItsSites) {
  ModelOptions options{.lora = {.rank = 2, .alpha = 4, .dropout = 0.1}};
  options.lora.modules = lora_modules(maps_of(tiny()), {"all-linear"});
  const auto sites = [](const ModelGraph& model) {
    std::map<std::string, std::uint32_t> found;
    for (const Node& node : model.graph.nodes()) {
      if (node.op == Op::kDropout) found[node.name] = std::get<DropoutAttributes>(node.attributes).site;
      if (node.op == Op::kAttention) found[node.name] = std::get<AttentionAttributes>(node.attributes).site;
    }
    return found;
  };
  const auto base = sites(layoutlmv3(tiny()).build({.samples = 1, .text_rows = 8}, true));
  const auto adapted = sites(layoutlmv3(tiny()).build({.samples = 1, .text_rows = 8}, true, options));
  std::set<std::uint32_t> distinct;
  for (const auto& [name, site] : adapted) distinct.insert(site);
  EXPECT_EQ(distinct.size(), adapted.size());
  EXPECT_EQ(adapted.size(), base.size() + options.lora.modules.size());
  for (const auto& [name, site] : base) EXPECT_EQ(adapted.at(name), site) << name;
  EXPECT_LT(*distinct.rbegin(), 65536U);
}

TEST(TrainedParts, FreshAdaptersAreThoseOfPeft) {
  ModelOptions options{.lora = {.rank = 4, .alpha = 4}};
  options.lora.modules = lora_modules(maps_of(tiny()), {"intermediate.dense"});
  std::map<std::string, std::vector<float>> values;
  for (const ParameterSpec& spec : layoutlmv3(tiny()).specs(options)) {
    if (!spec.is_adapter()) continue;
    values[spec.name].resize(static_cast<std::size_t>(spec.shape.elements()));
    initialise_parameter(spec, 7, values[spec.name]);
  }
  const double bound = 1 / std::sqrt(static_cast<double>(tiny().hidden_size));
  for (const auto& [name, v] : values) {
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    if (name.ends_with(".lora_B.weight")) {
      EXPECT_TRUE(*low == 0 && *high == 0) << name;
      continue;
    }
    double squares = 0;
    for (const float x : v) squares += double{x} * double{x};
    EXPECT_LE(*high, bound) << name;
    EXPECT_GE(*low, -bound) << name;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(v.size())), bound / std::sqrt(3.0), 0.1 * bound) << name;
  }
  EXPECT_NE(values.at("layoutlmv3.encoder.layer.0.intermediate.dense.lora_A.weight"),
            values.at("layoutlmv3.encoder.layer.1.intermediate.dense.lora_A.weight"));
}

TEST(TrainedParts, TargetsAreReadAsPeftReadsThem) {
  const LabelledConfig config = tiny();
  const auto layers = static_cast<std::size_t>(config.num_hidden_layers);
  EXPECT_EQ(lora_modules(maps_of(config), {"query"}).size(), layers);
  EXPECT_EQ(lora_modules(maps_of(config), {"output.dense"}).size(), 2 * layers);
  EXPECT_EQ(lora_modules(maps_of(config), {"dense"}).size(), 3 * layers);
  EXPECT_EQ(lora_modules(maps_of(config), {"all-linear"}).size(), 6 * layers);
  EXPECT_EQ(lora_modules(maps_of(config), {"layer.0.output.dense"}),
            std::set<std::string>{"layoutlmv3.encoder.layer.0.output.dense"});
  EXPECT_EQ(lora_modules(maps_of(config), {"layer.[0].*"}).size(), 6U);
  expect_error<UsageError>(
      [&] {
        lora_modules(maps_of(config), {"query", "q_proj"});
      },
      {"--lora-target-modules", "q_proj", "query, key, value", "layoutlmv3.encoder.layer.0", "omit"});
  // The list that is written selects the same modules again.
  for (const std::vector<std::string>& targets : {std::vector<std::string>{"query", "value"},
                                                  {"all-linear"},
                                                  {"layer.0.output.dense"},
                                                  {"attention.output.dense"},
                                                  {"layer.[0].*", "key"}}) {
    const std::set<std::string> modules = lora_modules(maps_of(config), targets);
    EXPECT_EQ(lora_modules(maps_of(config), lora_targets(maps_of(config), modules)), modules);
  }
  EXPECT_EQ(lora_targets(maps_of(config), lora_modules(maps_of(config), {"value", "query"})),
            (std::vector<std::string>{"query", "value"}));
}

TEST(TrainedParts, SenselessPatternsAreRefusedWithWhatWasMeant) {
  const auto refused = [](const std::string& pattern, std::string_view meant) {
    expect_error<UsageError>(
        [&] {
          check_trained_parts(layoutlmv3(tiny()), {.freeze = {"classifier.bias", pattern}});
        },
        {"--freeze", pattern, "at least one of", "did you mean", meant});
  };
  refused("layoutlmv3.embeddings", "layoutlmv3.embeddings.*");
  refused("embeddings.*", "layoutlmv3.embeddings.*");
  refused("encoder.layer.0", "layoutlmv3.encoder.layer.0.*");
  refused("query", "*.query.*");
  refused("clasifier.weight", "classifier.weight");
  refused("layoutlmv3.encoder.layers.0.output.dense.bias", "layoutlmv3.encoder.layer.0.output.dense.bias");
  expect_error<UsageError>([] { check_trained_parts(layoutlmv3(tiny()), {.freeze = {"*"}}); },
                           {"nothing to train", "--freeze", "*", "leave at least one", "plimsoll eval"});
  check_trained_parts(layoutlmv3(tiny()), {.freeze = {"layoutlmv3.*"}});
}

}  // namespace
}  // namespace plimsoll::test
