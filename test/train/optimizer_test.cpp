// Tests runs with each optimizer: they learn, stop and resume bit for bit, and keep their states separate.
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "support/expect_error.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

class EachOptimizer : public testing::TestWithParam<OptimizerKind> {
 protected:
  fs::path file(const std::string& run, const std::string& name) const { return folder_.path() / run / name; }

  ScratchFolder folder_;
};

TEST_P(EachOptimizer, LowersTheLoss) {
  SmallRun run(folder_.make("run"));
  run.options.optim = GetParam();
  run.options.max_steps = 30;
  run.train();
  ASSERT_EQ(run.reports.size(), 30U);
  EXPECT_LT(run.reports.back().loss, 0.5 * run.reports.front().loss);
}

TEST_P(EachOptimizer, StoppedAndResumedEndsWithTheSameBits) {
  SmallRun whole(folder_.make("whole")), cut(folder_.make("cut"));
  for (SmallRun* run : {&whole, &cut}) {
    run->options.optim = GetParam();
    run->options.save_steps = 6;
  }
  whole.train();
  EXPECT_THROW(cut.train(std::nullopt, 3), InterruptedError);
  const fs::path saved = checkpoint_path(cut.options.output_dir, 3);
  EXPECT_EQ(read_trainer_state(saved).optimizer, optimizer_name(GetParam()));
  cut.train(saved);
  for (const char* name : {"model.safetensors", "checkpoint-6/optimizer.safetensors"}) {
    EXPECT_TRUE(file_bytes(file("cut", name)) == file_bytes(file("whole", name))) << name;
  }
}

TEST_P(EachOptimizer, WhenItUpdatesChangesNoBit) {
  std::string models[3];
  const UpdateMode modes[3] = {UpdateMode::kAfterBackward, UpdateMode::kInBackward, UpdateMode::kTwoPasses};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = "run" + std::to_string(i);
    SmallRun run(folder_.make(name));
    run.options.optim = GetParam();
    run.options.max_grad_norm = 0;
    run.micro_batch = 4;
    run.update = modes[i];
    run.train();
    models[i] = file_bytes(file(name, "model.safetensors"));
  }
  EXPECT_TRUE(models[1] == models[0]);
  EXPECT_TRUE(models[2] == models[0]);
}

TEST_P(EachOptimizer, RefusesTheStateOfAnother) {
  SmallRun run(folder_.make("run"));
  run.options.optim = GetParam();
  run.options.save_steps = 6;
  run.train();
  const fs::path saved = checkpoint_path(run.options.output_dir, 6);
  for (const OptimizerKind other : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor}) {
    if (other == GetParam()) continue;
    run.options.optim = other;
    const std::string mine(optimizer_name(GetParam()));
    expect_error<UsageError>([&] { run.train(saved); },
                             {"another optimizer", "--optim", std::string(optimizer_name(other)) + " requested",
                              mine + " in the checkpoint", "--model " + saved.string()});
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EachOptimizer,
                         testing::Values(OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor),
                         [](const auto& kind) { return std::string(optimizer_name(kind.param)); });

TEST(CheckpointsOfOld, AreOfTheExactAdamW) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.save_steps = 3;
  run.train();
  const fs::path saved = checkpoint_path(run.options.output_dir, 3), state = saved / "trainer_state.json";
  nlohmann::json object = nlohmann::json::parse(file_bytes(state));
  ASSERT_EQ(object.erase("optim"), 1U);
  std::ofstream(state) << object.dump();
  fs::remove(saved / "checksums.json");  // an old checkpoint did not have that file either
  EXPECT_EQ(read_trainer_state(saved).optimizer, "adamw_torch");
  EXPECT_EQ(run.train(saved).steps_here, 3);
  run.options.optim = OptimizerKind::kAdafactor;
  EXPECT_THROW(run.train(saved), UsageError);
}

TEST(CodedOptimizer, StoresItsCodes) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.optim = OptimizerKind::kAdamW8bit;
  run.options.save_steps = 6;
  run.train();
  const SafetensorsReader file(checkpoint_path(run.options.output_dir, 6) / "optimizer.safetensors");
  const std::string name = "layoutlmv3.encoder.layer.0.intermediate.dense.weight.exp_avg";  // 96 x 48
  EXPECT_EQ(file.at(name).type, (TensorType{DType::kU8, {4608}}));
  EXPECT_EQ(file.at(name + ".absmax").type, (TensorType{DType::kF32, {18}}));
  std::vector<std::byte> codes(4608);
  file.read(name, codes);
  int zeros = 0;
  for (const std::byte code : codes) zeros += code == std::byte{127} ? 1 : 0;
  EXPECT_LT(zeros, 460);  // something was learnt
}

}  // namespace
}  // namespace plimsoll::test
