#include "model/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "formats/safetensors.h"
#include "support/expect_error.h"
#include "support/layoutlmv3_model.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

namespace fs = std::filesystem;

LabelledConfig small_config(std::int64_t labels = 3) {
  LabelledConfig config;
  config.labels.clear();
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 12;
  config.max_position_embeddings = 10;
  config.type_vocab_size = 2;
  config.max_2d_position_embeddings = 1024;
  config.coordinate_size = 1;
  config.shape_size = 2;
  config.rel_pos_bins = 8;
  config.rel_2d_pos_bins = 16;
  config.input_size = 12;
  config.patch_size = 4;
  for (std::int64_t i = 0; i < labels; ++i) config.labels.push_back("L" + std::to_string(i));
  return config;
}

// Memory for all parameters of a model, NaN until filled.
class Store {
 public:
  explicit Store(const std::vector<ParameterSpec>& specs) {
    for (const ParameterSpec& spec : specs) {
      values[spec.name].assign(static_cast<std::size_t>(spec.shape.elements()), std::nanf(""));
    }
  }
  ParameterMemory memory() {
    return [this](const std::string& name) { return std::span(values.at(name)); };
  }
  std::map<std::string, std::vector<float>> values;
};

// Makes a weight file with these tensors; each element's value gives its place.
float element(const std::string& name, std::size_t i) {
  return static_cast<float>(name.size()) * 1000 + static_cast<float>(i);
}
void write_weights(const fs::path& path, const std::vector<TensorDeclaration>& tensors) {
  SafetensorsWriter writer(path, tensors);
  for (const TensorDeclaration& tensor : tensors) {
    std::vector<float> values(static_cast<std::size_t>(tensor.type.shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(tensor.name, i);
    writer.write(std::as_bytes(std::span(values)));
  }
  writer.finish();
}

std::vector<TensorDeclaration> declarations(const std::vector<ParameterSpec>& specs) {
  std::vector<TensorDeclaration> result;
  for (const ParameterSpec& spec : specs) result.push_back({spec.name, {DType::kF32, spec.file_shape}});
  return result;
}

TensorDeclaration& named(std::vector<TensorDeclaration>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const TensorDeclaration& t) { return t.name == name; });
}

// LayoutLMv3ForTokenClassification.named_parameters() of transformers 5.17.0, with small_config()'s shape.
const std::vector<std::pair<std::string, Shape>> kListed = {
    {"layoutlmv3.cls_token", {1, 1, 8}},
    {"layoutlmv3.pos_embed", {1, 10, 8}},
    {"layoutlmv3.embeddings.word_embeddings.weight", {11, 8}},
    {"layoutlmv3.embeddings.token_type_embeddings.weight", {2, 8}},
    {"layoutlmv3.embeddings.LayerNorm.weight", {8}},
    {"layoutlmv3.embeddings.LayerNorm.bias", {8}},
    {"layoutlmv3.embeddings.position_embeddings.weight", {10, 8}},
    {"layoutlmv3.embeddings.x_position_embeddings.weight", {1024, 1}},
    {"layoutlmv3.embeddings.y_position_embeddings.weight", {1024, 1}},
    {"layoutlmv3.embeddings.h_position_embeddings.weight", {1024, 2}},
    {"layoutlmv3.embeddings.w_position_embeddings.weight", {1024, 2}},
    {"layoutlmv3.patch_embed.proj.weight", {8, 3, 4, 4}},
    {"layoutlmv3.patch_embed.proj.bias", {8}},
    {"layoutlmv3.LayerNorm.weight", {8}},
    {"layoutlmv3.LayerNorm.bias", {8}},
    {"layoutlmv3.norm.weight", {8}},
    {"layoutlmv3.norm.bias", {8}},
    {"layoutlmv3.encoder.layer.0.attention.self.query.weight", {8, 8}},
    {"layoutlmv3.encoder.layer.0.attention.self.query.bias", {8}},
    {"layoutlmv3.encoder.layer.0.attention.self.key.weight", {8, 8}},
    {"layoutlmv3.encoder.layer.0.attention.self.key.bias", {8}},
    {"layoutlmv3.encoder.layer.0.attention.self.value.weight", {8, 8}},
    {"layoutlmv3.encoder.layer.0.attention.self.value.bias", {8}},
    {"layoutlmv3.encoder.layer.0.attention.output.dense.weight", {8, 8}},
    {"layoutlmv3.encoder.layer.0.attention.output.dense.bias", {8}},
    {"layoutlmv3.encoder.layer.0.attention.output.LayerNorm.weight", {8}},
    {"layoutlmv3.encoder.layer.0.attention.output.LayerNorm.bias", {8}},
    {"layoutlmv3.encoder.layer.0.intermediate.dense.weight", {12, 8}},
    {"layoutlmv3.encoder.layer.0.intermediate.dense.bias", {12}},
    {"layoutlmv3.encoder.layer.0.output.dense.weight", {8, 12}},
    {"layoutlmv3.encoder.layer.0.output.dense.bias", {8}},
    {"layoutlmv3.encoder.layer.0.output.LayerNorm.weight", {8}},
    {"layoutlmv3.encoder.layer.0.output.LayerNorm.bias", {8}},
    {"layoutlmv3.encoder.rel_pos_bias.weight", {2, 8}},
    {"layoutlmv3.encoder.rel_pos_x_bias.weight", {2, 16}},
    {"layoutlmv3.encoder.rel_pos_y_bias.weight", {2, 16}}};

void expect_specs(const std::vector<ParameterSpec>& specs, std::vector<std::pair<std::string, Shape>> head) {
  std::vector<std::pair<std::string, Shape>> expected = kListed;
  expected.insert(expected.end(), head.begin(), head.end());
  ASSERT_EQ(specs.size(), expected.size());
  std::int64_t count = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].name, expected[i].first);
    EXPECT_EQ(specs[i].file_shape, expected[i].second) << specs[i].name;
    EXPECT_EQ(specs[i].shape.elements(), specs[i].file_shape.elements()) << specs[i].name;
    EXPECT_EQ(specs[i].trains, specs[i].name.find("rel_pos") == std::string::npos) << specs[i].name;
    count += expected[i].second.elements();
  }
  EXPECT_EQ(parameter_count(specs), count);
}

TEST(ParameterSpecs, AreThoseOfTransformersInTheirOrder) {
  expect_specs(layoutlmv3(small_config()).specs(), {{"classifier.weight", {3, 8}}, {"classifier.bias", {3}}});
  expect_specs(layoutlmv3(small_config(10)).specs(), {{"classifier.dense.weight", {8, 8}},
                                                      {"classifier.dense.bias", {8}},
                                                      {"classifier.out_proj.weight", {10, 8}},
                                                      {"classifier.out_proj.bias", {10}}});
}

TEST(ParameterSpecs, PatchesAreProjectedAsOneMatrix) {
  for (const ParameterSpec& spec : layoutlmv3(small_config()).specs()) {
    if (spec.name == "layoutlmv3.patch_embed.proj.weight") {
      EXPECT_EQ(spec.shape, (Shape{8, 48}));
    } else {
      EXPECT_EQ(spec.shape, spec.file_shape) << spec.name;
    }
  }
}

TEST(ParameterSpecs, RelativePositionTablesFollowTheConfigAndTheOptions) {
  const auto tables = [](const LabelledConfig& config, bool train) {
    std::map<std::string, bool> result;
    for (const ParameterSpec& spec : layoutlmv3(config).specs({.train_relative_position_tables = train})) {
      if (spec.name.find("rel_pos") != std::string::npos) result[spec.name.substr(19)] = spec.trains;
    }
    return result;
  };
  LabelledConfig config = small_config();
  EXPECT_EQ(tables(config, true),
            (std::map<std::string, bool>{
                {"rel_pos_bias.weight", true}, {"rel_pos_x_bias.weight", true}, {"rel_pos_y_bias.weight", true}}));
  config.has_relative_attention_bias = false;
  EXPECT_EQ(tables(config, false).size(), 2U);
  config.has_spatial_attention_bias = false;
  EXPECT_TRUE(tables(config, false).empty());
  // The graph still verifies, and trains the parameters that train.
  const ModelGraph model = layoutlmv3(config).build({.samples = 2, .text_rows = 5}, true);
  verify(model.graph);
  EXPECT_EQ(model.trained.size(), layoutlmv3(config).specs().size());
}

TEST(InitialiseParameter, IsAFunctionOfSeedNameAndElement) {
  const LabelledConfig config = small_config();
  const auto values = [&](const std::string& name, std::uint64_t seed, std::size_t count) {
    std::vector<float> list(count);
    initialise_parameter({.name = name, .shape = {static_cast<std::int64_t>(count)}, .file_shape = {}}, seed, list);
    return list;
  };
  const std::vector<float> first = values("a.weight", 1, 103);
  EXPECT_EQ(values("a.weight", 1, 103), first);
  std::vector<float> shorter = values("a.weight", 1, 50);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), first.begin()));
  const std::vector<std::vector<float>> others = {values("b.weight", 1, 103), values("a.weight", 2, 103),
                                                  values("a.weight", 1 + (1ULL << 32), 103)};
  for (const std::vector<float>& other : others) {
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NE(other[i], first[i]) << i;
  }
}

TEST(InitialiseParameter, IsNormal) {
  constexpr std::size_t kCount = 100'000;
  std::vector<float> values(kCount);
  initialise_parameter({.name = "w", .shape = {100, 1000}, .file_shape = {}, .normal_std = 0.5}, 42, values);
  double sum = 0, squares = 0, neighbours = 0;
  std::size_t beyond_one = 0, beyond_two = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double z = values[i] / 0.5;
    sum += z;
    squares += z * z;
    if (i > 0) neighbours += z * values[i - 1] / 0.5;
    beyond_one += std::abs(z) > 1 ? 1 : 0;
    beyond_two += std::abs(z) > 2 ? 1 : 0;
  }
  // The limits are five standard errors each.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(neighbours / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(static_cast<double>(beyond_one) / kCount, 0.31731, 5 * std::sqrt(0.317 * 0.683 / kCount));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.04550, 5 * std::sqrt(0.0455 * 0.9545 / kCount));
}

TEST(InitialiseParameter, EveryParameterStartsAsInTransformers) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  Store store(specs);
  const ParameterReport report = load_parameters(specs, {}, store.memory());
  EXPECT_TRUE(report.fresh.empty());
  EXPECT_TRUE(report.unused.empty());
  const auto pad = static_cast<std::size_t>(config.pad_token_id);
  for (const auto& [name, values] : store.values) {
    const bool padded =
        name.ends_with("word_embeddings.weight") || name == "layoutlmv3.embeddings.position_embeddings.weight";
    const bool zero = name.ends_with(".bias") || name.ends_with("cls_token") || name.ends_with("pos_embed");
    const bool one = name.ends_with("LayerNorm.weight") || name.ends_with("norm.weight");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (zero || one || (padded && i / 8 == pad)) {
        EXPECT_EQ(values[i], one ? 1.0F : 0.0F) << name << " " << i;
      } else {
        EXPECT_NE(values[i], 0.0F) << name << " " << i;
        EXPECT_LT(std::abs(values[i]), 6 * config.initializer_range) << name << " " << i;
      }
    }
  }
  // The source's seed determines the values.
  Store other(specs);
  load_parameters(specs, {.seed = 43}, other.memory());
  EXPECT_NE(other.values.at("classifier.weight"), store.values.at("classifier.weight"));
}

TEST(SaveParameters, WhatIsSavedIsLoadedBitForBit) {
  const LabelledConfig config = small_config(11);
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  Store saved(specs), loaded(specs);
  load_parameters(specs, {.seed = 7}, saved.memory());
  const ScratchFolder folder;
  save_parameters((folder / "model.safetensors"), specs, {}, saved.memory());
  const WeightsFile weights = open_weights((folder / "model.safetensors"));
  ASSERT_EQ(weights.entries().size(), specs.size());
  for (const ParameterSpec& spec : specs) {
    EXPECT_EQ(weights.at(spec.name).type, (TensorType{DType::kF32, spec.file_shape})) << spec.name;
  }
  EXPECT_EQ(SafetensorsReader((folder / "model.safetensors")).metadata().at("format"),
            "pt");  // transformers asks for it
  const ParameterReport report = load_parameters(specs, {.weights = &weights}, loaded.memory());
  EXPECT_TRUE(report.fresh.empty());
  EXPECT_TRUE(report.unused.empty());
  EXPECT_EQ(loaded.values, saved.values);
}

TEST(LoadParameters, ThePrefixMayBeMissing) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  std::vector<TensorDeclaration> tensors = declarations(specs);
  for (TensorDeclaration& tensor : tensors) {
    if (tensor.name.starts_with("layoutlmv3.")) tensor.name = tensor.name.substr(11);
  }
  const ScratchFolder folder;
  write_weights((folder / "model.safetensors"), tensors);
  const WeightsFile weights = open_weights((folder / "model.safetensors"));
  Store store(specs);
  const ParameterReport report = load_parameters(specs, {.weights = &weights, .prefix = "layoutlmv3"}, store.memory());
  EXPECT_TRUE(report.fresh.empty());
  EXPECT_TRUE(report.unused.empty());
  for (const auto& [name, values] : store.values) {
    const std::string bare = name.starts_with("layoutlmv3.") ? name.substr(11) : name;
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], element(bare, i)) << name << " " << i;
  }
}

// What is read where it is is not written; of another file, it must be the same.
TEST(LoadParameters, AParameterThatStaysInItsFileIsComparedWithOthers) {
  const ScratchFolder folder;
  const std::vector<ParameterSpec> specs = layoutlmv3(small_config()).specs();
  const fs::path path = folder / "model.safetensors";
  write_weights(path, declarations(specs));
  fs::copy(path, folder / "same.safetensors");
  const WeightsFile weights = open_weights(path), same = open_weights(folder / "same.safetensors");
  const auto stored = stored_parameters(specs, {.weights = &weights});
  EXPECT_EQ(stored.size(), specs.size());
  // Of a smaller model, what has the same shape.
  LabelledConfig smaller = small_config();
  smaller.intermediate_size = 4;
  const auto of_smaller = stored_parameters(layoutlmv3(smaller).specs(), {.weights = &weights});
  EXPECT_EQ(of_smaller.size(), specs.size() - 3) << "both matrices and a bias are others";
  EXPECT_FALSE(of_smaller.contains("layoutlmv3.encoder.layer.0.output.dense.weight"));
  EXPECT_EQ(stored_parameters(specs, {.weights = &weights, .fresh_head = true}).size(), specs.size() - 2);
  Store store(specs);
  load_parameters(specs, {.weights = &weights}, store.memory());
  const std::string kept = "layoutlmv3.encoder.layer.0.output.dense.weight";
  const ParameterMemory memory = [&](const std::string& name) {
    ParameterPlace place(std::span(store.values.at(name)));
    if (name == kept) place.set_stored(stored.at(name));
    return place;
  };
  EXPECT_TRUE(memory(kept).floats().empty()) << "nobody may write there";
  EXPECT_THROW(memory(kept).write(0, std::vector<float>(1)), InternalError);
  load_parameters(specs, {.weights = &weights}, memory);
  load_parameters(specs, {.weights = &same}, memory);
  store.values.at(kept)[5] += 1;  // stands for what the file has
  load_parameters(specs, {.weights = &weights}, memory);
  expect_error<DataError>([&] { load_parameters(specs, {.weights = &same}, memory); },
                          {kept, path.string(), "same.safetensors"});
}

// transformers renames them in the same way (conversion_mapping.py, "legacy"), with the prefix and without.
TEST(LoadParameters, EarlyNamesOfLayerNormAreRead) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  for (const bool prefixed : {true, false}) {
    std::vector<TensorDeclaration> tensors = declarations(specs);
    std::map<std::string, std::string> early;  // by today's name
    std::size_t renamed = 0;
    for (TensorDeclaration& tensor : tensors) {
      const std::string name = tensor.name;
      for (const auto& [now, then] : {std::pair<std::string, std::string>{"LayerNorm.weight", "LayerNorm.gamma"},
                                      {"LayerNorm.bias", "LayerNorm.beta"}}) {
        if (!name.ends_with(now)) continue;
        tensor.name = name.substr(0, name.size() - now.size()) + then;
        ++renamed;
      }
      if (!prefixed && tensor.name.starts_with("layoutlmv3.")) tensor.name = tensor.name.substr(11);
      early[name] = tensor.name;
    }
    EXPECT_EQ(renamed, 8U);
    const ScratchFolder folder;
    write_weights((folder / "model.safetensors"), tensors);
    const WeightsFile weights = open_weights((folder / "model.safetensors"));
    Store store(specs);
    const ParameterReport report =
        load_parameters(specs, {.weights = &weights, .prefix = "layoutlmv3"}, store.memory());
    EXPECT_TRUE(report.fresh.empty());
    EXPECT_TRUE(report.unused.empty());
    for (const auto& [name, values] : store.values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], element(early.at(name), i)) << name << " " << i;
    }
  }
}

TEST(LoadParameters, AMissingTensorIsNamed) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  for (const std::string name : {"layoutlmv3.cls_token", "layoutlmv3.encoder.layer.0.output.dense.weight"}) {
    std::vector<TensorDeclaration> tensors = declarations(specs);
    std::erase_if(tensors, [&](const TensorDeclaration& tensor) { return tensor.name == name; });
    const ScratchFolder folder;
    write_weights((folder / "model.safetensors"), tensors);
    const WeightsFile weights = open_weights((folder / "model.safetensors"));
    Store store(specs);
    const std::string shape = name.ends_with("cls_token") ? "[1, 1, 8]" : "[8, 12]";
    expect_error<DataError>([&] { load_parameters(specs, {.weights = &weights}, store.memory()); },
                            {name, (folder / "model.safetensors").string(), shape, "37 tensors"});
    expect_error<DataError>([&] { check_parameters(specs, {.weights = &weights}); }, {name, shape});
  }
}

TEST(LoadParameters, AnotherShapeIsNamed) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  // A tensor with the same number of elements in another shape is refused as well.
  const std::map<std::string, Shape> others = {{"layoutlmv3.embeddings.word_embeddings.weight", {12, 8}},
                                               {"layoutlmv3.encoder.layer.0.output.dense.weight", {12, 8}},
                                               {"layoutlmv3.patch_embed.proj.weight", {8, 48}},
                                               {"classifier.weight", {4, 8}}};
  for (const auto& [name, shape] : others) {
    std::vector<TensorDeclaration> tensors = declarations(specs);
    const Shape allowed = named(tensors, name).type.shape;
    named(tensors, name).type.shape = shape;
    const ScratchFolder folder;
    write_weights((folder / "model.safetensors"), tensors);
    const WeightsFile weights = open_weights((folder / "model.safetensors"));
    expect_error<DataError>(
        [&] { check_parameters(specs, {.weights = &weights}); },
        {"tensor '" + name + "'", "found:   F32" + to_string(shape), "allowed: " + to_string(allowed)});
  }
}

TEST(LoadParameters, TheHeadIsMadeNewWhereTheFileHasNone) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  std::vector<TensorDeclaration> tensors = declarations(specs);
  std::erase_if(tensors, [](const TensorDeclaration& tensor) { return tensor.name.starts_with("classifier"); });
  tensors.push_back({"lm_head.weight", {DType::kF32, {2, 2}}});
  const ScratchFolder folder;
  write_weights((folder / "model.safetensors"), tensors);
  const WeightsFile weights = open_weights((folder / "model.safetensors"));
  Store store(specs), fresh(specs);
  const ParameterReport report = load_parameters(specs, {.weights = &weights, .seed = 5}, store.memory());
  EXPECT_EQ(report.fresh, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(report.unused, std::vector<std::string>{"lm_head.weight"});
  load_parameters(specs, {.seed = 5}, fresh.memory());
  EXPECT_EQ(store.values.at("classifier.weight"), fresh.values.at("classifier.weight"));
  EXPECT_NE(store.values.at("layoutlmv3.cls_token"), fresh.values.at("layoutlmv3.cls_token"));
  const ParameterReport checked = check_parameters(specs, {.weights = &weights});
  EXPECT_EQ(checked.fresh, report.fresh);
  EXPECT_EQ(checked.unused, report.unused);
}

TEST(LoadParameters, HalfAHeadIsRefused) {
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  for (const std::string missing : {"classifier.weight", "classifier.bias"}) {
    std::vector<TensorDeclaration> tensors = declarations(specs);
    std::erase_if(tensors, [&](const TensorDeclaration& tensor) { return tensor.name == missing; });
    const ScratchFolder folder;
    write_weights((folder / "model.safetensors"), tensors);
    const WeightsFile weights = open_weights((folder / "model.safetensors"));
    expect_error<DataError>([&] { check_parameters(specs, {.weights = &weights}); }, {"lack a tensor", missing});
    EXPECT_EQ(check_parameters(specs, {.weights = &weights, .fresh_head = true}).fresh.size(), 2U);
  }
}

TEST(LoadParameters, TheHeadIsMadeNewWhereAsked) {
  // The file's head has the names of another form and, in one tensor, another shape.
  const LabelledConfig config = small_config();
  const std::vector<ParameterSpec> specs = layoutlmv3(config).specs();
  std::vector<TensorDeclaration> tensors = declarations(specs);
  named(tensors, "classifier.weight").type.shape = {7, 8};
  tensors.push_back({"classifier.dense.weight", {DType::kF32, {8, 8}}});
  const ScratchFolder folder;
  write_weights((folder / "model.safetensors"), tensors);
  const WeightsFile weights = open_weights((folder / "model.safetensors"));
  Store store(specs), fresh(specs);
  const ParameterSource source{.weights = &weights, .fresh_head = true, .seed = 5};
  const ParameterReport report = load_parameters(specs, source, store.memory());
  EXPECT_EQ(report.fresh, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(report.unused, std::vector<std::string>{"classifier.dense.weight"});
  load_parameters(specs, {.seed = 5}, fresh.memory());
  for (const char* name : {"classifier.weight", "classifier.bias"}) {
    EXPECT_EQ(store.values.at(name), fresh.values.at(name)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::test
