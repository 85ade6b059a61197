// Weights in 4 bits on disk, through the whole program.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/program_fixture.h"
#include "formats/safetensors.h"
#include "formats/weights.h"
#include "tensor/block_code.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

class Quantize : public ProgramTest {
 protected:
  void SetUp() override {
    write_texts("texts.jsonl");
    ASSERT_EQ(run(train("llama-tiny", "floats", {"--task", "causal-lm", "--learning-rate", "5e-3"})).code, 0);
  }
  Arguments train(const std::string& model, const std::string& output, const Arguments& more = {}) const {
    Arguments all = {"train",
                     "--model",
                     model,
                     "--data",
                     path("pages/texts.jsonl"),
                     "--output-dir",
                     path(output),
                     "--budget",
                     "1GiB",
                     "--threads",
                     "1",
                     "--max-length",
                     "32",
                     "--seed",
                     "3",
                     "--max-steps",
                     "10"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome quantize(const std::string& model, const std::string& output, const Arguments& more = {}) const {
    Arguments all = {"quantize", "--model", path(model), "--output-dir", path(output)};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  double loss(const std::string& model, const Arguments& more = {}) const {
    Arguments all = {"eval",     "--model", path(model), "--data", path("pages/texts.jsonl"),
                     "--budget", "1GiB",    "--threads", "1",      "--max-length",
                     "32",       "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? json::parse(outcome.out).at("loss").get<double>() : std::nan("");
  }
  // Writes a copy of floats/ whose layers' matrices are in 8 bits, as transformers saves them with bitsandbytes, and
  // one that holds the numbers that those stand for.
  void write_in_8_bits(const std::string& coded, const std::string& decoded) const {
    for (const std::string& directory : {coded, decoded}) {
      fs::copy(at("floats"), at(directory), fs::copy_options::recursive);
      fs::remove(at(directory) / "checksums.json");
    }
    json quantized = config("floats");
    quantized["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
    write_bytes(at(coded) / "config.json", quantized.dump());
    const SafetensorsReader floats(at("floats/model.safetensors"));
    std::vector<std::pair<TensorDeclaration, std::vector<std::byte>>> in_8_bits, in_floats;
    const auto add = [](auto& to, const std::string& name, const TensorType& type, std::span<const std::byte> bytes) {
      to.push_back({{name, type}, {bytes.begin(), bytes.end()}});
    };
    for (const TensorEntry& entry : floats.entries()) {
      const Shape& shape = entry.type.shape;
      std::vector<float> values(static_cast<std::size_t>(shape.elements()));
      floats.read(entry.name, std::as_writable_bytes(std::span(values)));
      if (shape.rank() != 2 || !entry.name.starts_with("model.layers.")) {
        for (auto* to : {&in_8_bits, &in_floats}) add(*to, entry.name, entry.type, std::as_bytes(std::span(values)));
        continue;
      }
      std::vector<std::int8_t> codes;
      std::vector<float> scales;
      const auto columns = static_cast<std::size_t>(shape[1]);
      for (std::size_t row = 0; row < values.size(); row += columns) {
        const std::span<float> its = std::span(values).subspan(row, columns);
        scales.push_back(largest_magnitude(its));
        for (float& value : its) {
          codes.push_back(static_cast<std::int8_t>(std::lround(value * 127 / scales.back())));
          value = static_cast<float>(codes.back()) * scales.back() / 127;
        }
      }
      add(in_8_bits, entry.name, {DType::kI8, shape}, std::as_bytes(std::span(codes)));
      const std::string module = entry.name.substr(0, entry.name.size() - std::string("weight").size());
      add(in_8_bits, module + "SCB", {DType::kF32, {shape[0]}}, std::as_bytes(std::span(scales)));
      add(in_floats, entry.name, entry.type, std::as_bytes(std::span(values)));
    }
    for (const auto& [directory, tensors] : {std::pair(coded, in_8_bits), std::pair(decoded, in_floats)}) {
      std::vector<TensorDeclaration> declared;
      for (const auto& [tensor, bytes] : tensors) declared.push_back(tensor);
      SafetensorsWriter writer(at(directory) / "model.safetensors", declared);
      for (const auto& [tensor, bytes] : tensors) writer.write(bytes);
      writer.finish();
    }
  }
  json config(const std::string& model) const { return json::parse(file_bytes(at(model) / "config.json")); }
};

TEST_F(Quantize, AModelIsHeldAsItsFileHasIt) {
  const double before = loss("floats");
  for (const bool twice : {false, true}) {
    const std::string model = twice ? "double" : "plain";
    const Outcome outcome =
        quantize("floats", model, twice ? Arguments{"--bnb-4bit-use-double-quant", "--json"} : Arguments{"--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json told = json::parse(outcome.out);
    // Rows of 96 weights are no whole blocks: of the two layers' seven matrices one has rows of 256.
    EXPECT_EQ(told.at("matrices"), 2);
    EXPECT_EQ(told.at("matrices_in_floats").size(), 12U);
    EXPECT_LT(told.at("bytes"), told.at("bytes_before"));
    const json written = config(model);
    EXPECT_EQ(written.at("quantization_config").at("quant_method"), "bitsandbytes");
    EXPECT_EQ(written.at("quantization_config").at("bnb_4bit_use_double_quant"), twice);
    EXPECT_THAT(written.at("quantization_config").at("llm_int8_skip_modules").get<std::vector<std::string>>(),
                testing::AllOf(testing::Contains("lm_head"), testing::Contains("model.layers.0.self_attn.q_proj"),
                               testing::Not(testing::Contains("model.layers.0.mlp.down_proj"))));
    // Near the model before, and the same to the bit as when the numbers of the file are computed with as floats.
    const double coded = loss(model);
    EXPECT_NEAR(coded, before, 0.2);
    EXPECT_NE(coded, before);
    EXPECT_EQ(run({"predict", "--model", path(model), "--data", path("pages/texts.jsonl"), "--output",
                   path("out.jsonl"), "--budget", "1GiB", "--max-length", "32"})
                  .code,
              0);
    const WeightsFile weights = open_weights(at(model));
    EXPECT_EQ(weights.coding("model.layers.1.mlp.down_proj.weight"), Coding::kNormalFloat);
    EXPECT_EQ(weights.coding("model.layers.1.mlp.up_proj.weight"), Coding::kNone);
  }
}

TEST_F(Quantize, AdaptersTrainOnItAndMergeIntoFloats) {
  ASSERT_EQ(quantize("floats", "coded").code, 0);
  const double before = loss("coded");
  ASSERT_EQ(run(train(path("coded"), "adapter", {"--lora-rank", "4", "--learning-rate", "1e-2"})).code, 0);
  const double with_adapter = loss("adapter");
  EXPECT_LT(with_adapter, before);
  const Outcome merged = run({"merge", "--adapter", path("adapter"), "--output-dir", path("merged")});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_FALSE(config("merged").contains("quantization_config"));
  EXPECT_NEAR(loss("merged"), with_adapter, 1e-4);
  // All else trains beside them where they are frozen.
  const Outcome frozen = run(train(path("coded"), "frozen", {"--freeze", "model.layers.*"}));
  EXPECT_EQ(frozen.code, 0) << frozen.err;
  EXPECT_LT(loss("frozen"), before);
}

TEST_F(Quantize, AFileIn8BitsIsHeldInThem) {
  write_in_8_bits("coded", "decoded");
  const auto plan_of = [&](const std::string& model) {
    Arguments all = train(path(model), "planned", {"--lora-rank", "4", "--json"});
    all.front() = "plan";
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  const Outcome coded = plan_of("coded"), decoded = plan_of("decoded");
  EXPECT_THAT(coded.err, testing::Not(testing::HasSubstr("read as floats")));
  const auto bytes = [](const Outcome& plan, const char* name) {
    const json items = json::parse(plan.out).at("items");
    const auto found = std::ranges::find_if(items, [&](const json& item) { return item.at("name") == name; });
    EXPECT_NE(found, items.end()) << name;
    return found == items.end() ? 0 : found->at("bytes").get<double>();
  };
  // Floats take four bytes; of these rows, some of which are one block and a half, codes take less than two.
  const WeightsFile weights = open_weights(at("coded"));
  double matrices = 0;
  for (const TensorEntry& entry : weights.entries()) {
    if (weights.coding(entry.name) == Coding::kBytes) matrices += static_cast<double>(entry.type.bytes());
  }
  EXPECT_GT(matrices, 0);
  EXPECT_LT(bytes(coded, "frozen parameters (8 bits)"), bytes(decoded, "frozen parameters") - matrices / 2);
  // In blocks' own codes each number would be up to half a step from that of the file.
  const double expected = loss("decoded");
  EXPECT_NEAR(loss("coded"), expected, 2e-6 * expected);
  EXPECT_GT(std::abs(loss("decoded", {"--load-in-8bit", "--float-activations"}) - expected), 2e-5 * expected);
  EXPECT_NEAR(loss("coded", {"--bf16"}), expected, 0.05);
  ASSERT_EQ(run(train(path("coded"), "adapter", {"--lora-rank", "4", "--learning-rate", "1e-2"})).code, 0);
  EXPECT_LT(loss("adapter"), expected);
  expect_message(run(train(path("coded"), "run")), 2, {"in 4 or 8 bits, and they do not train", "--lora-rank 16"});
}

TEST_F(Quantize, RefusesNumbersThatAreNotFinite) {
  const std::string whole = file_bytes(at("floats/model.safetensors"));
  for (const char* tensor : {"model.layers.0.mlp.up_proj.weight", "model.embed_tokens.weight"}) {
    write_bytes(at("floats/model.safetensors"), whole);
    edit_weights(at("floats/model.safetensors"), [&](std::string& header, char* data) {
      const float nan = std::nanf("");
      std::memcpy(data + json::parse(header).at(tensor).at("data_offsets")[0].get<std::size_t>(), &nan, sizeof(nan));
    });
    expect_message(quantize("floats", "coded"), 3, {"a weight is not a finite number", tensor, "element 0"});
    expect_message(
        run({"trim", "--model", path("floats"), "--data", path("pages/texts.jsonl"), "--output-dir", path("small")}), 3,
        {"a weight is not a finite number", tensor});
    EXPECT_FALSE(fs::exists(at("coded/config.json")));
  }
}

TEST_F(Quantize, RefusesWhatCannotBe) {
  ASSERT_EQ(quantize("floats", "coded").code, 0);
  expect_message(run(train(path("coded"), "run")), 2,
                 {"in 4 or 8 bits, and they do not train", "down_proj", "--lora-rank 16"});
  expect_message(quantize("coded", "again"), 2, {"quantized already"});
  expect_message(quantize("floats", "floats"), 2, {"--output-dir"});
  ASSERT_EQ(run(train(path("coded"), "adapter", {"--lora-rank", "2"})).code, 0);
  expect_message(quantize("adapter", "again"), 2, {"plimsoll merge"});
  EXPECT_FALSE(fs::exists(at("again/config.json")));
  // Forms that are not read are refused by their names.
  json other = config("floats");
  other["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  fs::remove(at("floats/checksums.json"));
  write_bytes(at("floats/config.json"), other.dump());
  expect_message(run(train(path("floats"), "run")), 3, {"quantization_config", "gptq", "--load-in-4bit"});
  other["quantization_config"] = "gelu";
  write_bytes(at("floats/config.json"), other.dump());
  expect_message(quantize("floats", "again"), 3, {"quantization_config", "gelu"});
  other.erase("quantization_config");
  other["intermediate_size"] = 2 * other["intermediate_size"].get<int>();
  write_bytes(at("floats/config.json"), other.dump());
  expect_message(quantize("floats", "again"), 3, {"model.safetensors", "another shape"});
}

}  // namespace
}  // namespace plimsoll::test
