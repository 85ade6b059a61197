// Tests runs that train a part of the model: frozen parameters, low-rank adapters, their files, and merging them.
#include "bundle/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "formats/safetensors.h"
#include "harness/paths.h"
#include "support/expect_error.h"
#include "tensor/half.h"
#include "tensor/numpy_name.h"
#include "train/gradients.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

using Floats = std::map<std::string, std::vector<float>>;

Floats read_file(const fs::path& path) {
  const SafetensorsReader file(path);
  Floats values;
  for (const TensorEntry& entry : file.entries()) {
    std::vector<float>& tensor = values[entry.name];
    tensor.resize(static_cast<std::size_t>(entry.type.shape.elements()));
    file.read(entry.name, std::as_writable_bytes(std::span(tensor)));
  }
  return values;
}

void write_file(const fs::path& path, const Floats& values, const std::map<std::string, Shape>& shapes) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : values) declarations.push_back({name, {DType::kF32, shapes.at(name)}});
  SafetensorsWriter writer(path, declarations);
  for (const auto& [name, tensor] : values) writer.write(std::as_bytes(std::span(tensor)));
  writer.finish();
}

std::map<std::string, Shape> shapes_in(const fs::path& path) {
  const SafetensorsReader file(path);
  std::map<std::string, Shape> shapes;
  for (const TensorEntry& entry : file.entries()) shapes[entry.name] = entry.type.shape;
  return shapes;
}

// Writes a directory with small_model() as at the start of training.
fs::path write_base(const fs::path& directory, std::uint64_t seed = 42) {
  const ModelBundle bundle = small_model();
  Floats values;
  for (const ParameterSpec& spec : bundle.specs()) {
    values[spec.name].resize(static_cast<std::size_t>(spec.shape.elements()));
  }
  const ParameterMemory memory = [&](const std::string& name) { return std::span<float>(values.at(name)); };
  load_model(bundle, seed, memory);
  fs::create_directories(directory);
  save_model(directory, bundle, {}, memory);
  return directory;
}

// The options of every run with adapters here.
PartsRequest adapters(std::int64_t rank = 4, double dropout = 0) {
  return {.freeze = {}, .lora_rank = rank, .lora_alpha = 3, .lora_dropout = dropout, .lora_targets = {}};
}

// Returns the logits of the golden batch.
std::vector<float> logits_of(const ModelBundle& bundle, const fs::path& folder) {
  CpuBackend backend(1);
  const fs::path output = folder / "gradients.safetensors";
  compute_gradients(bundle, test_data_dir() / "model" / "linear" / "batch0.safetensors", output, backend);
  return read_file(output).at("logits");
}

ModelBundle golden_model() {
  const fs::path directory = test_data_dir() / "model" / "linear";
  ModelBundle bundle;
  bundle.origin = directory.string();
  bundle.config = read_config(directory);
  bundle.weights = std::make_shared<WeightsFile>(open_weights(directory));
  return bundle;
}

TEST(Frozen, ParametersKeepEveryBitAndOthersMove) {
  const ScratchFolder folder;
  const fs::path base = write_base(folder.path() / "base");
  const Floats before = read_file(base / "model.safetensors");
  for (const DType precision : {DType::kF32, DType::kBF16, DType::kF16}) {
    SmallRun run(folder.make("run" + std::string(dtype_name(precision))));
    run.model = base;
    run.parts.freeze = {"layoutlmv3.embeddings.*", "layoutlmv3.encoder.layer.0.attention.*"};
    run.options.precision = precision;
    run.train();
    const Floats after = read_file(run.options.output_dir / "model.safetensors");
    ASSERT_EQ(after.size(), before.size());
    std::size_t frozen = 0, moved = 0;
    for (const auto& [name, values] : before) {
      const bool is_frozen = name.starts_with("layoutlmv3.embeddings.") ||
                             name.starts_with("layoutlmv3.encoder.layer.0.attention.") ||
                             name.starts_with("layoutlmv3.encoder.rel_pos");
      if (is_frozen) {
        EXPECT_EQ(after.at(name), values) << name;
        ++frozen;
      } else {
        moved += after.at(name) != values ? 1U : 0U;
      }
    }
    EXPECT_GT(frozen, 15U);
    EXPECT_EQ(frozen + moved, before.size());
  }
}

TEST(Frozen, ARunIsResumedBitForBit) {
  const ScratchFolder folder;
  const fs::path base = write_base(folder.path() / "base");
  std::string expected;
  for (const bool stops : {false, true}) {
    SmallRun run(folder.make(stops ? "stopped" : "whole"));
    run.model = base;
    run.parts.freeze = {"layoutlmv3.encoder.layer.0.attention.self.*"};
    run.options.precision = DType::kBF16;
    if (stops) {
      EXPECT_THROW(run.train(std::nullopt, 3), InterruptedError);
      run.train(checkpoint_path(run.options.output_dir, 3));
      EXPECT_TRUE(file_bytes(run.options.output_dir / "model.safetensors") == expected);
    } else {
      run.train();
      expected = file_bytes(run.options.output_dir / "model.safetensors");
    }
  }
}

TEST(Frozen, StateIsKeptOnlyForWhatTrains) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.model = write_base(folder.path() / "base");
  run.parts = adapters(2);
  run.options.max_steps = 2;
  run.options.save_steps = 2;
  run.options.precision = DType::kBF16;
  run.train();
  const auto states = shapes_in(checkpoint_path(run.options.output_dir, 2) / "optimizer.safetensors");
  EXPECT_EQ(states.size(), 2U * (2 * 6 + 2));  // two moments of A, B, and the head's weight and bias
  for (const auto& [name, shape] : states) {
    EXPECT_TRUE(name.starts_with("classifier.") || name.find(".lora_") != std::string::npos) << name;
  }
}

TEST(Adapters, BeginAsTheBaseModelBitForBit) {
  const ScratchFolder folder;
  ModelBundle bundle = golden_model();
  const std::vector<float> base = logits_of(bundle, folder.path());
  choose_trained_parts(bundle, adapters(3));
  EXPECT_EQ(logits_of(bundle, folder.path()), base);
  // In training, the base's dropout masks are the same with and without adapters.
  const fs::path directory = write_base(folder.path() / "base");
  std::vector<double> losses;
  for (const bool adapts : {false, true}) {
    SmallRun run(folder.make(adapts ? "adapted" : "plain"));
    run.model = directory;
    if (adapts) run.parts = adapters(4, 0.1);
    run.options.max_steps = 1;
    run.train();
    losses.push_back(run.reports.at(0).loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// With the magnitudes that DoRA begins with, its maps are the base's, whatever the dropout: what dropout takes from the
// adapted part of a map it adds to the rest. The magnitudes are the norms of the weights as memory has them.
TEST(Adapters, WithMagnitudesBeginAsTheBaseModelToo) {
  const ScratchFolder folder;
  const fs::path base = write_base(folder.path() / "base");
  for (const auto& [name, precision, weights] :
       {std::tuple("f32", DType::kF32, DType::kF32), std::tuple("q8", DType::kF32, DType::kQ8),
        std::tuple("nf4", DType::kF32, DType::kNF4), std::tuple("bf16", DType::kBF16, DType::kF32)}) {
    SCOPED_TRACE(name);
    std::vector<double> losses;
    for (const bool dora : {false, true}) {
      for (const double dropout : {0.0, 0.3}) {
        SmallRun run(folder.make(fmt::format("{}-{}-{}", name, dora, dropout)));
        run.model = base;
        run.parts = adapters(4, dropout);
        run.parts.lora_dora = dora;
        run.parts.frozen_weights = weights;
        run.options.precision = precision;
        run.options.max_steps = 1;
        run.train();
        losses.push_back(run.reports.at(0).loss);
      }
    }
    const double allowed = precision == DType::kF32 ? 2e-6 : 2e-2;
    for (const double loss : losses) EXPECT_NEAR(loss, losses.front(), allowed * losses.front());
  }
}

TEST(Adapters, LearnAndAreReadBackAsTheyWere) {
  const ScratchFolder folder;
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    SmallRun run(folder.make("run" + std::string(dtype_name(precision))));
    run.model = write_base(folder.path() / "base");
    run.parts = adapters(4, 0.1);
    run.options.precision = precision;
    run.options.max_steps = 30;
    run.options.learning_rate = 2e-2;
    run.evaluates = true;
    const TrainSummary summary = run.train();
    EXPECT_LT(summary.last_loss, 0.5 * run.reports.front().loss);
    const fs::path directory = run.options.output_dir;
    EXPECT_FALSE(fs::exists(directory / "model.safetensors"));
    // The model that is read back has exactly the scores measured at the end.
    const ModelBundle bundle = open_model(directory.string());
    EXPECT_EQ(bundle.options.lora.rank, 4);
    EXPECT_EQ(bundle.options.lora.alpha, 3);
    EXPECT_EQ(bundle.options.lora.modules.size(), 6U);
    EXPECT_EQ(run.evaluate(bundle).loss, summary.evaluation->loss);
  }
}

TEST(Adapters, ARunIsResumedBitForBit) {
  const ScratchFolder folder;
  const fs::path base = write_base(folder.path() / "base");
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const std::string name(dtype_name(precision));
    SmallRun whole(folder.make("whole" + name)), stopped(folder.make("stopped" + name));
    for (SmallRun* run : {&whole, &stopped}) {
      run->model = base;
      run->parts = adapters(4, 0.1);
      run->options.precision = precision;
    }
    whole.train();
    EXPECT_THROW(stopped.train(std::nullopt, 3), InterruptedError);
    stopped.train(checkpoint_path(stopped.options.output_dir, 3));
    EXPECT_TRUE(file_bytes(stopped.options.output_dir / "adapter_model.safetensors") ==
                file_bytes(whole.options.output_dir / "adapter_model.safetensors"));
    // A checkpoint with another kind of adapter, or another rank, is refused.
    stopped.parts = {};
    expect_error<DataError>(
        [&] { stopped.train(checkpoint_path(stopped.options.output_dir, 3)); },
        {"holds an adapter", "checkpoint-3", "adapter_config.json", "without adapters", "--lora-rank"});
    stopped.parts = adapters(8);
    expect_error<DataError>([&] { stopped.train(checkpoint_path(stopped.options.output_dir, 3)); },
                            {"lora_A.weight", "[4, 48]", "[8, 48]", "adapter_model.safetensors"});
  }
}

// Every setting of PEFT's LoraConfig that this run has, in the types that weights may have.
TEST(Adapters, OfEverySettingAreResumedAndReadBack) {
  const ScratchFolder folder;
  const fs::path base = write_base(folder.path() / "base");
  for (const auto& [name, precision, weights] :
       {std::tuple("f32", DType::kF32, DType::kF32), std::tuple("bf16", DType::kBF16, DType::kF32),
        std::tuple("fp16", DType::kF16, DType::kF32), std::tuple("q8", DType::kF32, DType::kQ8),
        std::tuple("nf4", DType::kBF16, DType::kNF4)}) {
    SCOPED_TRACE(name);
    SmallRun whole(folder.make(std::string("whole-") + name)), stopped(folder.make(std::string("stopped-") + name));
    for (SmallRun* run : {&whole, &stopped}) {
      run->model = base;
      run->parts = adapters(4, 0.1);
      run->parts.lora_rslora = run->parts.lora_dora = true;
      run->parts.rank_pattern = {{"query", 2}, {"output.dense", 6}};
      run->parts.alpha_pattern = {{"value", 9}};
      run->parts.lora_excluded = {"key"};
      run->parts.saved_modules = {"LayerNorm", "intermediate", "word_embeddings"};
      run->parts.frozen_weights = weights;
      run->options.precision = precision;
      run->options.learning_rate = 1e-2;
      run->evaluates = true;
    }
    const TrainSummary summary = whole.train();
    EXPECT_LT(summary.last_loss, whole.reports.front().loss);
    EXPECT_THROW(stopped.train(std::nullopt, 3), InterruptedError);
    stopped.train(checkpoint_path(stopped.options.output_dir, 3));
    const fs::path file = whole.options.output_dir / "adapter_model.safetensors";
    EXPECT_TRUE(file_bytes(stopped.options.output_dir / "adapter_model.safetensors") == file_bytes(file));

    ModelBundle bundle = open_model(whole.options.output_dir.string());
    const LoraOptions& lora = bundle.options.lora;
    const std::string layer = "layoutlmv3.encoder.layer.0.";
    EXPECT_TRUE(lora.rslora && lora.dora);
    EXPECT_EQ(lora.modules, (std::set<std::string>{layer + "attention.output.dense", layer + "attention.self.query",
                                                   layer + "attention.self.value", layer + "output.dense"}));
    EXPECT_EQ(lora.ranks, (std::map<std::string, std::int64_t>{{layer + "attention.output.dense", 6},
                                                               {layer + "attention.self.query", 2},
                                                               {layer + "output.dense", 6}}));
    EXPECT_EQ(lora.alphas, (std::map<std::string, double>{{layer + "attention.self.value", 9}}));
    EXPECT_EQ(lora.saved,
              (std::set<std::string>{"layoutlmv3.LayerNorm", "layoutlmv3.embeddings.LayerNorm",
                                     "layoutlmv3.embeddings.word_embeddings", layer + "attention.output.LayerNorm",
                                     layer + "intermediate", layer + "output.LayerNorm"}));
    // The saved modules have moved, and are in the adapter's file.
    const Floats before = read_file(base / "model.safetensors"), after = read_file(file);
    for (const ParameterSpec& spec : bundle.specs()) {
      EXPECT_EQ(after.contains("base_model.model." + spec.name), spec.in_adapter_file()) << spec.name;
      EXPECT_TRUE(!spec.saved || after.at("base_model.model." + spec.name) != before.at(spec.name)) << spec.name;
    }
    if (precision != DType::kF32) continue;
    bundle.options.frozen_weights = weights;
    EXPECT_EQ(whole.evaluate(bundle).loss, summary.evaluation->loss);
  }
}

// An adapter of the golden model with nonzero numbers in every tensor.
fs::path write_adapter(const fs::path& directory) {
  ModelBundle bundle = golden_model();
  PartsRequest parts = adapters(3);
  parts.lora_rslora = parts.lora_dora = true;
  parts.rank_pattern = {{"query", 2}};
  parts.alpha_pattern = {{"layer.0.output.dense", 5}};
  parts.saved_modules = {"layer.1.output.LayerNorm"};
  choose_trained_parts(bundle, parts);
  Floats values;
  float next = 0;
  for (const ParameterSpec& spec : bundle.specs()) {
    std::vector<float>& tensor = values[spec.name];
    for (std::int64_t i = 0; i < spec.shape.elements(); ++i) tensor.push_back(0.3F * std::sin(next += 0.7F));
  }
  fs::create_directories(directory);
  save_adapter(directory, bundle, {}, [&](const std::string& name) { return std::span<float>(values.at(name)); });
  return directory;
}

TEST(Adapters, MergedModelHasTheSameLogits) {
  const ScratchFolder folder;
  const fs::path adapter = write_adapter(folder.path() / "adapter");
  const ModelBundle adapted = open_weights_only(adapter.string());
  const std::vector<float> base = logits_of(golden_model(), folder.path());
  const std::vector<float> expected = logits_of(adapted, folder.path());
  // The golden directory lacks the tokenizer's files of a model directory.
  ModelBundle whole = adapted;
  whole.tokenizer = std::make_shared<Tokenizer>(Tokenizer::embedded());
  fs::create_directories(folder.path() / "merged");
  merge_adapter(folder.path() / "merged", whole);
  const ModelBundle merged = open_weights_only((folder.path() / "merged").string());
  EXPECT_FALSE(merged.options.lora.enabled());
  const std::vector<float> found = logits_of(merged, folder.path());
  ASSERT_EQ(found.size(), expected.size());
  double moved = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
    moved = std::max(moved, std::abs(double{expected[i]} - double{base[i]}));
  }
  EXPECT_GT(moved, 0.1) << "the adapter does nothing here";

  for (const DType type : {DType::kBF16, DType::kF16}) {
    const fs::path halves = folder.path() / numpy_name(type);
    fs::create_directories(halves);
    merge_adapter(halves, whole, type);
    const auto config = nlohmann::json::parse(read_text_file(halves / "config.json"));
    EXPECT_EQ(config.at("dtype"), numpy_name(type));
    const ModelBundle narrowed = open_weights_only(halves.string());
    std::vector<std::byte> staging(4096);
    for (const auto& [name, values] : read_file(folder.path() / "merged" / "model.safetensors")) {
      ASSERT_EQ(narrowed.weights->at(name).type.dtype, type);
      std::vector<float> rounded(values.size());
      narrowed.weights->read_as_f32(name, 0, rounded, staging);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float nearest = type == DType::kBF16 ? bfloat16_to_float(float_to_bfloat16(values[i]))
                                                   : half_to_float(float_to_half(values[i]));
        ASSERT_EQ(rounded[i], nearest) << name << " " << i;
      }
    }
  }
}

class WrongAdapter : public testing::Test {
 protected:
  WrongAdapter() : adapter_(write_adapter(folder_.path() / "adapter")), file_(adapter_ / "adapter_model.safetensors") {
    values_ = read_file(file_);
    shapes_ = shapes_in(file_);
    config_ = nlohmann::json::parse(file_bytes(adapter_ / "adapter_config.json"));
  }
  void refused(std::initializer_list<std::string_view> parts) {
    fs::remove(file_);
    write_file(file_, values_, shapes_);
    std::ofstream(adapter_ / "adapter_config.json") << config_.dump();
    expect_error<DataError>([&] { check_weights(open_weights_only(adapter_.string())); }, parts);
  }
  void accepted() {
    fs::remove(file_);
    write_file(file_, values_, shapes_);
    std::ofstream(adapter_ / "adapter_config.json") << config_.dump();
    EXPECT_NO_THROW(check_weights(open_weights_only(adapter_.string()))) << config_.dump(2);
  }
  const std::string query_ = "base_model.model.layoutlmv3.encoder.layer.0.attention.self.query";

  ScratchFolder folder_;
  fs::path adapter_, file_;
  Floats values_;
  std::map<std::string, Shape> shapes_;
  nlohmann::json config_;
};

TEST_F(WrongAdapter, OfAnotherRank) {
  config_["r"] = 5;
  refused({"another shape", ".lora_A.weight", "[3, ", "[5, ", "r in adapter_config.json"});
}

TEST_F(WrongAdapter, WithoutATensor) {
  values_.erase(query_ + ".lora_B.weight");
  refused({"lacks a tensor", "adapter_model.safetensors", "none named '" + query_ + ".lora_B.weight'", "with shape",
           "again"});
}

TEST_F(WrongAdapter, WithoutAModuleThatItsConfigNames) {
  values_.erase(query_ + ".lora_A.weight");
  values_.erase(query_ + ".lora_B.weight");
  refused({"lacks a tensor", "adapter_model.safetensors", query_, "with shape", "again"});
}

TEST_F(WrongAdapter, OfABaseWithAnotherShape) {
  const std::string name = query_ + ".lora_A.weight";
  shapes_[name] = {2, shapes_[name][1] / 2};
  values_[name].resize(values_[name].size() / 2);
  refused({"another shape", name, to_string(shapes_[name]), "[2, ", "--base-model"});
}

// Without "use_dora" magnitudes would be passed over, and the adapter would be another.
TEST_F(WrongAdapter, WithMagnitudesThatItsConfigDoesNotName) {
  config_["use_dora"] = false;
  refused({"that the model does not have", "lora_magnitude_vector"});
}

TEST_F(WrongAdapter, WithoutAMagnitude) {
  values_.erase(query_ + ".lora_magnitude_vector");
  refused({"lacks a tensor", query_ + ".lora_magnitude_vector", "again"});
}

TEST_F(WrongAdapter, WithoutATensorOfASavedModule) {
  const std::string norm = "base_model.model.layoutlmv3.encoder.layer.1.output.LayerNorm.bias";
  ASSERT_TRUE(values_.contains(norm));
  values_.erase(norm);
  refused({"lacks a tensor", "adapter_model.safetensors", norm, "again"});
}

TEST_F(WrongAdapter, WithATensorThatIsNotInASavedModule) {
  config_["modules_to_save"] = {"classifier", "score"};
  refused({"that the model does not have", "layer.1.output.LayerNorm", "modules_to_save"});
}

TEST_F(WrongAdapter, WithATensorOfNoPlace) {
  const std::string name = "base_model.model.layoutlmv3.encoder.layer.99.output.dense.lora_A.weight";
  values_[name] = {1, 2, 3};
  shapes_[name] = {3, 1};
  refused({"that the model does not have", "adapter_model.safetensors", name, "the encoder's", "--base-model"});
}

TEST_F(WrongAdapter, OfALanguageModelsHeadOrEmbedding) {
  for (const std::string name :
       {"lm_head.lora_A.weight", "lm_head.base_layer.weight", "model.embed_tokens.lora_embedding_A"}) {
    values_["base_model.model." + name] = {1, 2, 3};
    shapes_["base_model.model." + name] = {3, 1};
    refused({"of the head or of the word embedding", name, "tie_word_embeddings=False"});
    values_.erase("base_model.model." + name);
  }
}

TEST_F(WrongAdapter, OfAnotherKind) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"peft_type", "IA3"},
                                                                        {"use_dora", "true"},
                                                                        {"use_rslora", "yes"},
                                                                        {"alpha_pattern", {{"query", "4"}}},
                                                                        {"alpha_pattern", {{"(", 4}}},
                                                                        {"modules_to_save", "LayerNorm"},
                                                                        {"bias", "all"},
                                                                        {"r", 0},
                                                                        {"lora_alpha", "16"},
                                                                        {"rank_pattern", {{"query", 0}}}}) {
    const nlohmann::json good = config_;
    config_[key] = value;
    refused(
        {"adapter_config.json", "key \"" + key + "\"", value.dump(), "allowed", "merge it into its base with PEFT"});
    config_ = good;
  }
}

TEST_F(WrongAdapter, WithModulesThatAreNoNames) {
  for (const nlohmann::json& wrong :
       {nlohmann::json(3), nlohmann::json{{"query", true}}, nlohmann::json::array({"query", 3})}) {
    config_["target_modules"] = wrong;
    refused({"key \"target_modules\"", wrong.dump(), "names of modules"});
  }
  config_["target_modules"] = "all-linear";
  accepted();
}

// Some init_lora_weights move a part of the base's weights into the adapter: on an unchanged base it would count twice.
TEST_F(WrongAdapter, OfAChangedBase) {
  for (const std::string init :
       {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", "mica", "of_next_year"}) {
    config_["init_lora_weights"] = init;
    refused({"changed", "adapter_config.json", "key \"init_lora_weights\"", "\"" + init + "\"", "allowed",
             "path_initial_model_for_weight_conversion", "merge_and_unload"});
  }
  for (const nlohmann::json& init : {nlohmann::json(true), {false}, {nullptr}, {"gaussian"}, {"orthogonal"}, {"eva"}}) {
    config_["init_lora_weights"] = init.is_array() ? init[0] : init;
    accepted();
  }
}

// test/data/adapter_config.json has all keys that PEFT 0.21.2 writes, at their defaults.
TEST_F(WrongAdapter, WithAnyKeyThatIsNotUnderstood) {
  nlohmann::json defaults = nlohmann::json::parse(file_bytes(test_data_dir() / "adapter_config.json"));
  ASSERT_GE(defaults.size(), 40U);
  const std::set<std::string> used = {"peft_type",    "task_type",     "base_model_name_or_path", "r",
                                      "lora_alpha",   "lora_dropout",  "target_modules",          "init_lora_weights",
                                      "use_rslora",   "use_dora",      "exclude_modules",         "layers_to_transform",
                                      "rank_pattern", "alpha_pattern", "modules_to_save"};
  const std::set<std::string> harmless = {
      "auto_mapping", "corda_config",   "ensure_weight_tying", "eva_config",    "inference_mode", "layers_pattern",
      "loftq_config", "lora_ga_config", "fan_in_fan_out",      "megatron_core", "peft_version",   "qalora_group_size",
      "revision"};
  for (const std::string& key : used) defaults[key] = config_.contains(key) ? config_[key] : nlohmann::json();
  config_ = defaults;
  accepted();
  std::size_t refusals = 0;
  for (const auto& [key, value] : defaults.items()) {
    if (used.contains(key)) continue;
    for (const nlohmann::json& other : {nlohmann::json("odd"), nlohmann::json{{"odd", 1}}, nlohmann::json(7)}) {
      config_[key] = other;
      if (harmless.contains(key)) {
        accepted();
      } else {
        refused({"key \"" + key + "\"", other.dump(), "allowed", "merge it into its base with PEFT"});
        ++refusals;
      }
    }
    config_ = defaults;
  }
  EXPECT_EQ(refusals, 3U * (defaults.size() - used.size() - harmless.size()));
  // A future PEFT may add keys; one that is switched off changes nothing.
  for (const nlohmann::json& off : {nlohmann::json(false), nlohmann::json()}) {
    config_["use_next_years_lora"] = off;
    accepted();
  }
  for (const nlohmann::json& on : {nlohmann::json(true), nlohmann::json::object(), nlohmann::json(1)}) {
    config_["use_next_years_lora"] = on;
    refused({"key \"use_next_years_lora\"", on.dump(), "PEFT"});
  }
}

TEST_F(WrongAdapter, OfAnotherTask) {
  config_["task_type"] = "SEQ_2_SEQ_LM";
  refused({"key \"task_type\"", "SEQ_2_SEQ_LM", "TOKEN_CLS", "SEQ_CLS"});
}

TEST_F(WrongAdapter, WithoutItsBase) {
  config_["base_model_name_or_path"] = "/nowhere/base";
  refused({"base model is not found", "base_model_name_or_path", "/nowhere/base", "trained on", "--base-model DIR"});
  // It is found if it is named explicitly.
  check_weights(open_weights_only(adapter_.string(), golden_model().origin));
}

}  // namespace
}  // namespace plimsoll::test
