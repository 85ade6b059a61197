// Tests runs whose frozen weights are held in 8 or 4 bits.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/safetensors.h"
#include "support/expect_error.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::string model;
};

Outcome outcome(DType code, DType precision, const fs::path& directory, bool stops = false) {
  SmallRun run(directory);
  run.parts.freeze = {"layoutlmv3.encoder.*", "layoutlmv3.embeddings.word_embeddings.*"};
  run.parts.frozen_weights = code;
  run.options.precision = precision;
  run.options.max_steps = 10;
  if (stops) {
    EXPECT_THROW(run.train(std::nullopt, 4), InterruptedError);
    run.train(checkpoint_path(run.options.output_dir, 4));
  } else {
    run.train();
  }
  Outcome result{.losses = {}, .model = file_bytes(directory / "model.safetensors")};
  for (const StepReport& report : run.reports) result.losses.push_back(report.loss);
  return result;
}

class CodedWeights : public testing::TestWithParam<DType> {};

TEST_P(CodedWeights, TrainWhatIsNotFrozen) {
  const ScratchFolder folder;
  for (const DType precision : {DType::kF32, DType::kBF16, DType::kF16}) {
    const std::string name(precision_name(precision));
    const Outcome coded = outcome(GetParam(), precision, folder.make("coded" + name));
    const Outcome plain = outcome(DType::kF32, precision, folder.make("plain" + name));
    ASSERT_EQ(coded.losses.size(), plain.losses.size());
    EXPECT_NE(coded.losses, plain.losses);
    EXPECT_LT(coded.losses.back(), coded.losses.front());
    const double allowed = GetParam() == DType::kQ8 ? 0.01 : 0.05;
    for (std::size_t i = 0; i < plain.losses.size(); ++i) {
      EXPECT_NEAR(coded.losses[i], plain.losses[i], allowed * plain.losses[0]) << name << ", update " << i;
    }
  }
}

TEST_P(CodedWeights, AreSavedAsTheyCame) {
  const ScratchFolder folder;
  outcome(GetParam(), DType::kF32, folder.make("run"));
  SmallRun fresh(folder.make("fresh"));
  fresh.options.max_steps = 1;
  fresh.options.learning_rate = 0;
  fresh.options.weight_decay = 0;
  fresh.train();
  const SafetensorsReader ours(folder.path() / "run" / "model.safetensors");
  const SafetensorsReader original(folder.path() / "fresh" / "model.safetensors");
  for (const char* name :
       {"layoutlmv3.encoder.layer.0.output.dense.weight", "layoutlmv3.embeddings.word_embeddings.weight"}) {
    std::vector<float> found(static_cast<std::size_t>(ours.at(name).type.shape.elements())), expected(found.size());
    ours.read(name, std::as_writable_bytes(std::span(found)));
    original.read(name, std::as_writable_bytes(std::span(expected)));
    EXPECT_EQ(found, expected) << name;
  }
}

TEST_P(CodedWeights, ResumeBitForBit) {
  const ScratchFolder folder;
  EXPECT_TRUE(outcome(GetParam(), DType::kF32, folder.make("whole")).model ==
              outcome(GetParam(), DType::kF32, folder.make("parts"), true).model);
}

TEST_P(CodedWeights, NeedFrozenOnes) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.parts.frozen_weights = GetParam();
  expect_error<UsageError>([&] { run.train(); }, {"trained weights cannot be quantized", "bit", "--lora-rank 8"});
}

INSTANTIATE_TEST_SUITE_P(Codes, CodedWeights, testing::Values(DType::kQ8, DType::kNF4),
                         [](const auto& parameter) { return std::string(dtype_name(parameter.param)); });

}  // namespace
}  // namespace plimsoll::test
