// Tests training in bfloat16 and half precision: losses close to F32's, exactness where it is guaranteed, and safety
// when half precision overflows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/safetensors.h"
#include "tensor/half.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

std::vector<double> losses_of(const SmallRun& run) {
  std::vector<double> losses;
  for (const StepReport& report : run.reports) losses.push_back(report.loss);
  return losses;
}

std::vector<double> losses_in(DType precision, std::int64_t micro = 4) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.precision = precision;
  run.micro_batch = micro;
  run.train();
  return losses_of(run);
}

class Precision : public testing::TestWithParam<DType> {};

TEST_P(Precision, LearnsAsF32Does) {
  for (const std::int64_t micro : {4, 2}) {
    const std::vector<double> half = losses_in(GetParam(), micro), single = losses_in(DType::kF32, micro);
    ASSERT_EQ(half.size(), single.size());
    EXPECT_LT(half.back(), half.front());
    EXPECT_NE(half, single);
    for (std::size_t i = 0; i < half.size(); ++i) EXPECT_NEAR(half[i], single[i], 0.01 * single[0]) << "update " << i;
  }
}

TEST_P(Precision, LeversChangeNoBit) {
  const auto outcome = [](UpdateMode update, RecomputeMode recompute) {
    const ScratchFolder folder;
    SmallRun run(folder.make("run"));
    run.options.precision = GetParam();
    run.micro_batch = 4;
    run.update = update;
    run.recompute = recompute;
    run.train();
    return std::pair(losses_of(run), file_bytes(folder.path() / "run" / "model.safetensors"));
  };
  const auto plain = outcome(UpdateMode::kAfterBackward, RecomputeMode::kNone);
  EXPECT_TRUE(outcome(UpdateMode::kAfterBackward, RecomputeMode::kLayers) == plain);
  EXPECT_TRUE(outcome(UpdateMode::kTwoPasses, RecomputeMode::kLayers) == plain);
}

TEST_P(Precision, ResumesBitForBit) {
  const ScratchFolder folder;
  SmallRun whole(folder.make("whole")), parts(folder.make("parts"));
  for (SmallRun* run : {&whole, &parts}) run->options.precision = GetParam();
  whole.train();
  EXPECT_THROW(parts.train(std::nullopt, 3), InterruptedError);
  parts.train(checkpoint_path(parts.options.output_dir, 3));
  EXPECT_TRUE(file_bytes(whole.options.output_dir / "model.safetensors") ==
              file_bytes(parts.options.output_dir / "model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Halves, Precision, testing::Values(DType::kBF16, DType::kF16),
                         [](const auto& parameter) { return std::string(dtype_name(parameter.param)); });

TEST(Bf16, KeepsTheF32ValueOfEveryWeight) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.precision = DType::kBF16;
  run.train();
  const SafetensorsReader file(folder.path() / "run" / "model.safetensors");
  const std::string name = "layoutlmv3.encoder.layer.0.output.dense.weight";
  std::vector<float> weight(static_cast<std::size_t>(file.at(name).type.shape.elements()));
  file.read(name, std::as_writable_bytes(std::span(weight)));
  std::size_t between = 0;
  for (const float value : weight) between += bfloat16_to_float(float_to_bfloat16(value)) != value ? 1 : 0;
  EXPECT_GT(between, weight.size() / 2);
}

TEST(Fp16, SkipsUpdatesUntilTheScaleFits) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.precision = DType::kF16;
  run.options.fp16_initial_scale = 0x1p40;  // gradients of 2^-24 and more overflow
  run.options.max_steps = 30;
  run.options.schedule = {SchedulerType::kConstant};
  run.options.warmup_ratio = 0;
  const TrainSummary summary = run.train();
  EXPECT_GT(summary.skipped_updates, 5);
  EXPECT_LT(summary.skipped_updates, 29);
  // Weights do not change while updates are skipped: the first update's loss shows nothing yet, but its learning rate
  // does.
  EXPECT_EQ(run.reports.front().skipped_updates, 1);
  EXPECT_EQ(run.reports.front().loss_scale, 0x1p39);
  EXPECT_EQ(run.reports.back().skipped_updates, summary.skipped_updates);
  EXPECT_LT(run.reports.back().loss, run.reports.front().loss);
}

// The file and the screen say the same about an interval, also if all of its updates were skipped.
TEST(Fp16, TheFileSaysOfSkippedUpdatesWhatTheScreenSays) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.precision = DType::kF16;
  run.options.fp16_initial_scale = 0x1p36;
  run.options.max_steps = 24;
  run.options.logging_steps = 2;
  run.train();
  std::istringstream lines(file_bytes(run.options.output_dir / "metrics.jsonl"));
  std::size_t skipped = 0, made = 0;
  for (std::string text; std::getline(lines, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    const StepReport& report = run.reports.at(line.at("step").get<std::size_t>() - 1);
    EXPECT_GT(report.mean_loss, 0.1);
    EXPECT_NEAR(line.at("loss").get<double>(), report.mean_loss, 1e-8 * report.mean_loss) << text;
    if (std::isfinite(report.gradient_norm)) {
      EXPECT_GT(line.at("grad_norm").get<double>(), 0) << text;
      ++made;
    } else {
      EXPECT_TRUE(line.at("grad_norm").is_null()) << text;
      ++skipped;
    }
  }
  EXPECT_GE(skipped, 2U);
  EXPECT_GE(made, 2U);
}

TEST(Fp16, TheScheduleFollowsRealUpdates) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.precision = DType::kF16;
  run.options.fp16_initial_scale = 0x1p40;
  run.options.max_steps = 30;
  run.train();
  const LearningRate rate({.schedule = run.options.schedule,
                           .peak = run.options.learning_rate,
                           .warmup_steps = warmup_updates(run.options, 30),
                           .total_steps = 30});
  std::int64_t real = 0;
  for (const StepReport& report : run.reports) {
    const std::int64_t now = report.step - report.skipped_updates;
    if (now > real) {
      EXPECT_DOUBLE_EQ(report.learning_rate, rate.at(real)) << report.step;
    }
    real = now;
  }
}

TEST(Fp16, AnUpdateThatOverflowsChangesNoWeight) {
  const ScratchFolder folder;
  SmallRun none(folder.make("none")), skipped(folder.make("skipped"));
  for (SmallRun* run : {&none, &skipped}) run->options.precision = DType::kF16;
  none.options.learning_rate = 0;
  none.options.weight_decay = 0;
  skipped.options.fp16_initial_scale = 0x1p60;
  for (SmallRun* run : {&none, &skipped}) run->options.max_steps = 3;
  none.train();
  EXPECT_EQ(skipped.train().skipped_updates, 3);
  EXPECT_TRUE(file_bytes(none.options.output_dir / "model.safetensors") ==
              file_bytes(skipped.options.output_dir / "model.safetensors"));
}

TEST(Fp16, StopsWhereNoScaleHelpsAndContinuesInBf16) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.precision = DType::kF16;
  run.options.learning_rate = 1e5;  // after one update activations far exceed half precision
  run.options.warmup_ratio = 0;
  run.options.weight_decay = 0;
  run.options.max_steps = 60;
  try {
    run.train();
    FAIL() << "weights of 1e5 were trained in half precision";
  } catch (const ScaleCollapsedError& error) {
    EXPECT_THAT(error.problem().found, testing::HasSubstr("31 updates skipped"));
    EXPECT_THAT(error.problem().remedy, testing::HasSubstr("--fp16-fallback bf16"));
    EXPECT_EQ(error.exit_code(), ExitCode::kDiverged);
  }
  const std::vector<std::int64_t> saved = list_checkpoints(run.options.output_dir);
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(read_trainer_state(checkpoint_path(run.options.output_dir, saved[0])).scaler.skipped, 31);
  run.options.precision = DType::kBF16;
  run.options.learning_rate = 1e-3;
  run.options.max_steps = saved[0] + 3;
  EXPECT_EQ(run.train(checkpoint_path(run.options.output_dir, saved[0])).steps_here, 3);
  EXPECT_TRUE(std::isfinite(run.reports.back().loss));
}

}  // namespace
}  // namespace plimsoll::test
