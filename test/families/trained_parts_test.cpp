// Tests which parameters train: patterns, adapters, and requests that are refused.
#include "model/trained_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

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

// PEFT takes "all-linear" in a list for the name of a module.
TEST(TrainedParts, TargetsAreNamesThatPeftFinds) {
  for (const auto& [preset, first] :
       {std::pair("gpt2-tiny", "c_attn"), {"llama-tiny", "q_proj"}, {"roberta-tiny", "query"}}) {
    const std::vector<LinearMap> maps = preset_config(preset).encoder->linear_maps();
    const std::vector<std::string> targets = lora_targets(maps, lora_modules(maps, {"all-linear"}));
    EXPECT_EQ(targets.front(), first) << preset;
  }
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

TEST(TrainedParts, PatternsGiveNumbersAsPeftReadsThem) {
  const std::set<std::string> modules = lora_modules(maps_of(tiny()), {"all-linear"});
  const std::string layer = "layoutlmv3.encoder.layer.0.";
  // PEFT's re.match(rf"(.*\\.)?({key})$", name), the first key that matches.
  const auto value = [&](const LoraPatterns& patterns, const std::string& module) {
    const std::map<std::string, double> values = pattern_values(patterns, modules);
    return values.contains(module) ? values.at(module) : 0;
  };
  EXPECT_EQ(value({{"query", 4}}, layer + "attention.self.query"), 4);
  EXPECT_EQ(value({{"uery", 4}}, layer + "attention.self.query"), 0);  // not the end of a part of the name
  EXPECT_EQ(value({{"self", 4}}, layer + "attention.self.query"), 0);
  EXPECT_EQ(value({{layer + "attention.self.query", 4}}, layer + "attention.self.query"), 4);
  EXPECT_EQ(value({{R"(layer\.0\..*)", 5}, {"query", 4}}, layer + "attention.self.query"), 5);
  EXPECT_EQ(value({{"query", 4}, {R"(layer\.0\..*)", 5}}, layer + "attention.self.query"), 4);
  EXPECT_EQ(value({{R"(layer\.[1-9]\..*)", 5}}, layer + "output.dense"), 0);
  EXPECT_EQ(value({{"output.dense", 2}}, layer + "attention.output.dense"), 2);
  EXPECT_THROW(pattern_values({{"(", 1}}, modules), std::invalid_argument);
  // What is written gives every map the same number again, whatever the order in which a reader takes it.
  std::map<std::string, double> numbers = pattern_values(
      {{"attention.output.dense", 3}, {"layer.1.output.dense", 3}, {"query", 4}, {R"(layer\.0\..*)", 5}}, modules);
  LoraPatterns written = patterns_of(numbers, maps_of(tiny()));
  EXPECT_EQ(pattern_values(written, modules), numbers);
  std::ranges::reverse(written);
  EXPECT_EQ(pattern_values(written, modules), numbers);
  EXPECT_EQ(patterns_of(pattern_values({{"query", 4}}, modules), maps_of(tiny())), (LoraPatterns{{"query", 4}}));
}

TEST(TrainedParts, RanksAndScalesAreThoseOfEachMap) {
  const std::string query = "layoutlmv3.encoder.layer.0.attention.self.query",
                    value = "layoutlmv3.encoder.layer.1.attention.self.value";
  ModelOptions options{.lora = {.rank = 4, .alpha = 8}};
  options.lora.modules = {query, value};
  options.lora.ranks[value] = 16;
  options.lora.alphas[query] = 2;
  EXPECT_EQ(options.lora.scale_of(query), 0.5);
  EXPECT_EQ(options.lora.scale_of(value), 0.5);
  options.lora.rslora = true;
  EXPECT_EQ(options.lora.scale_of(query), 1);
  EXPECT_EQ(options.lora.scale_of(value), 2);
  for (const ParameterSpec& spec : layoutlmv3(tiny()).specs(options)) {
    if (!spec.is_adapter()) continue;
    const std::int64_t rank = spec.name.starts_with(query) ? 4 : 16;
    EXPECT_EQ(spec.shape, spec.name.ends_with("lora_A.weight") ? (Shape{rank, 96}) : (Shape{96, rank})) << spec.name;
  }
  EXPECT_EQ(adapters_text(options.lora, true), "adapters of ranks 4 to 16 and the head");
}

TEST(TrainedParts, MagnitudesTrainBesideAdapters) {
  ModelOptions options{.lora = {.rank = 2, .alpha = 4, .dropout = 0.1, .dora = true}};
  options.lora.modules = lora_modules(maps_of(tiny()), {"query", "output.dense"});
  const std::string dense = "layoutlmv3.encoder.layer.1.output.dense";
  const std::set<std::string> names = trained(options);
  EXPECT_EQ(names.size(), 2 + 3 * options.lora.modules.size());
  EXPECT_TRUE(names.contains(dense + ".lora_magnitude_vector"));
  // The norms are those of the weight in memory, row by row.
  std::map<std::string, std::vector<float>> values;
  for (const ParameterSpec& spec : layoutlmv3(tiny()).specs(options)) {
    values[spec.name].resize(static_cast<std::size_t>(spec.shape.elements()));
    if (!spec.is_adapter()) continue;
    EXPECT_EQ(spec.layer, spec.name.starts_with("layoutlmv3.encoder.layer.1") ? 1 : 0) << spec.name;
  }
  load_parameters(layoutlmv3(tiny()).specs(options), {.seed = 7},
                  [&](const std::string& name) { return ParameterPlace(std::span<float>(values.at(name))); });
  const std::vector<float>&weight = values.at(dense + ".weight"), &norms = values.at(dense + ".lora_magnitude_vector");
  for (std::size_t row = 0; row < norms.size(); ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 384; ++i) squares += double{weight[row * 384 + i]} * double{weight[row * 384 + i]};
    EXPECT_FLOAT_EQ(norms[row], static_cast<float>(std::sqrt(squares)));
  }
  EXPECT_EQ(adapters_text(options.lora, false), "DoRA adapters of rank 2");
  // Every gradient is there, and no temporary has a weight's size: the norms are computed row by row.
  const ModelGraph model = layoutlmv3(tiny()).build({.samples = 1, .text_rows = 8}, true, options);
  EXPECT_EQ(model.trained.size(), names.size());
  for (const Node& node : model.graph.nodes()) {
    for (const ValueId output : node.outputs) {
      EXPECT_NE(model.graph.type(output).shape, (Shape{96, 384})) << node.name;
    }
  }
}

TEST(TrainedParts, SavedModulesTrainBesideAdapters) {
  std::vector<std::string> parameters;
  for (const ParameterSpec& spec : layoutlmv3(tiny()).specs()) parameters.push_back(spec.name);
  const std::string layer = "layoutlmv3.encoder.layer.1";
  EXPECT_EQ(saved_modules(parameters, {"layer.1.output", "output.LayerNorm"}),
            (std::set<std::string>{layer + ".output", layer + ".attention.output.LayerNorm",
                                   "layoutlmv3.encoder.layer.0.output.LayerNorm",
                                   "layoutlmv3.encoder.layer.0.attention.output.LayerNorm"}));
  EXPECT_EQ(saved_modules(parameters, {"layer.1", "query"}),
            (std::set<std::string>{layer, "layoutlmv3.encoder.layer.0.attention.self.query"}));
  EXPECT_TRUE(saved_modules(parameters, {}).empty());
  expect_error<UsageError>([&] { saved_modules(parameters, {"LayerNrm"}); },
                           {"--modules-to-save", "LayerNrm", "no module", "end of one"});
  expect_error<UsageError>([&] { saved_modules(parameters, {"encoder.layer"}); },
                           {"--modules-to-save", "encoder.layer", "list of layers", "encoder.layer.0"});
  ModelOptions options{.lora = {.rank = 2, .alpha = 4}, .frozen_weights = DType::kNF4};
  options.lora.modules = {"layoutlmv3.encoder.layer.0.attention.self.query"};
  options.lora.saved = {layer + ".output", "layoutlmv3.encoder.rel_pos_bias"};
  const std::set<std::string> names = trained(options);
  EXPECT_EQ(names.size(), 4U + 4U);  // A, B and the head; dense and LayerNorm
  EXPECT_TRUE(names.contains(layer + ".output.dense.weight"));
  for (const ParameterSpec& spec : layoutlmv3(tiny()).specs(options)) {
    EXPECT_EQ(spec.saved, is_within(spec.name, options.lora.saved)) << spec.name;
    // A saved weight trains in full precision; what does not train is in the file all the same, and exactly.
    EXPECT_TRUE(!spec.saved || parameter_type(spec, DType::kF32, options) == DType::kF32) << spec.name;
    if (spec.name == "layoutlmv3.encoder.rel_pos_bias.weight") {
      EXPECT_TRUE(spec.saved && !spec.trains);
      EXPECT_EQ(parameter_type(spec, DType::kBF16, options), DType::kF32);
    }
  }
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
