// Logits, loss and every gradient of a small model against `transformers` in double precision
// (test/data/model/README.md).
#include "train/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "formats/safetensors.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::vector<float> read(const SafetensorsReader& file, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(file.at(name).type.shape.elements()));
  file.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

// The golden directories have no tokenizer, and gradients do not need one.
ModelBundle golden_model(const std::string& head) {
  const fs::path directory = test_data_dir() / "model" / head;
  ModelBundle bundle;
  bundle.config = read_config(directory);
  bundle.weights = std::make_shared<WeightsFile>(open_weights(directory));
  return bundle;
}

void compare_with_golden(const std::string& head, Backend& backend) {
  const fs::path directory = test_data_dir() / "model" / head;
  const fs::path output =
      fs::path(testing::TempDir()) / ("gradients_" + head + std::string(backend.name()) + ".safetensors");
  compute_gradients(golden_model(head), directory / "batch0.safetensors", output, backend);
  const SafetensorsReader found(output), expected(directory / "reference.safetensors");
  EXPECT_NEAR(read(found, "loss")[0], read(expected, "loss")[0], 2e-6);
  const std::vector<float> logits = read(found, "logits"), expected_logits = read(expected, "logits");
  ASSERT_EQ(logits.size(), expected_logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected_logits[i], 1e-5) << i;
  double whole = 0;
  int compared = 0;
  for (const TensorEntry& entry : expected.entries()) whole += std::pow(norm(read(expected, entry.name)), 2);
  for (const TensorEntry& entry : expected.entries()) {
    if (entry.name == "loss" || entry.name == "logits" || entry.name.starts_with("hidden_states")) continue;
    ASSERT_NE(found.find(entry.name), nullptr) << entry.name;
    EXPECT_EQ(found.at(entry.name).type.shape, entry.type.shape) << entry.name;
    const std::vector<float> a = read(found, entry.name), b = read(expected, entry.name);
    if (entry.name.ends_with("key.bias")) {
      EXPECT_LT(norm(a), 1e-8 * std::sqrt(whole)) << entry.name;  // its true gradient is zero
    } else if (norm(b) < 1e-12 * std::sqrt(whole)) {
      EXPECT_LT(norm(a), std::exp2(-24) * std::sqrt(whole)) << entry.name;  // likewise, of what every row's logit has
    } else {
      EXPECT_LT(distance(a, b), 2e-5 * norm(b)) << entry.name;
    }
    ++compared;
  }
  EXPECT_EQ(static_cast<std::size_t>(compared) + 2, found.entries().size());
  fs::remove(output);
}

TEST(Gradients, ReferenceMatchesTransformersLinearHead) {
  ReferenceBackend backend;
  compare_with_golden("linear", backend);
}
TEST(Gradients, ReferenceMatchesTransformersMlpHead) {
  ReferenceBackend backend;
  compare_with_golden("mlp", backend);
}
TEST(Gradients, CpuMatchesTransformersLinearHead) {
  CpuBackend backend(2);
  compare_with_golden("linear", backend);
}
TEST(Gradients, CpuMatchesTransformersMlpHead) {
  CpuBackend backend(2);
  compare_with_golden("mlp", backend);
}

TEST(Gradients, TextFamiliesMatchTransformers) {
  ReferenceBackend reference;
  CpuBackend cpu(2);
  for (const char* family : {"bert", "roberta"}) {
    SCOPED_TRACE(family);
    compare_with_golden(family, reference);
    compare_with_golden(family, cpu);
  }
}

TEST(Gradients, TasksAndFamiliesMatchTransformers) {
  ReferenceBackend reference;
  CpuBackend cpu(2);
  for (const char* model :
       {"layoutlmv3-single-label", "bert-multi-label", "roberta-regression", "layoutlmv3-question-answering",
        "layoutlmv3-relation-extraction", "lilt-token-classification", "layoutlm-token-classification",
        "xlm-roberta-token-classification", "qwen3-causal-lm", "gpt2-causal-lm-tied", "gpt2-single-label"}) {
    SCOPED_TRACE(model);
    compare_with_golden(model, reference);
    compare_with_golden(model, cpu);
  }
}

}  // namespace
}  // namespace plimsoll
