// Runs in memory that the host cannot access, like a device's: only kernels may dereference a tensor's address.
#include <gtest/gtest.h>

#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

void expect_same_files(const fs::path& near, const fs::path& far, std::initializer_list<const char*> names) {
  for (const char* name : names) EXPECT_TRUE(file_bytes(near / name) == file_bytes(far / name)) << name;
}

// Without this the runs below would prove nothing.
TEST(FarMemory, CannotBeReachedByTheHost) {
  CpuBackend near(1);
  FarBackend far(near);
  const std::unique_ptr<DeviceMemory> memory = far.allocate(64);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(memory->bytes().data()) = std::byte{1}, "");
}

class FarMemoryRun : public testing::TestWithParam<const char*> {};

TEST_P(FarMemoryRun, EndsWithTheSameBits) {
  const ScratchFolder folder;
  SmallRun near(folder.make("near")), far(folder.make("far"));
  far.far_memory = true;
  for (SmallRun* run : {&near, &far}) {
    const std::string_view kind = GetParam();
    if (kind == "bf16") run->options.precision = DType::kBF16;
    if (kind == "fp16") run->options.precision = DType::kF16;
    if (kind == "codes") run->options.optim = OptimizerKind::kAdamW8bit;
    if (kind == "anomaly") run->options.detect_anomaly = true;
    run->evaluates = true;
    run->options.save_steps = 3;
    run->train();
  }
  expect_same_files(near.options.output_dir, far.options.output_dir,
                    {"model.safetensors", "checkpoint-3/model.safetensors", "checkpoint-3/optimizer.safetensors"});
  const TrainSummary resumed = far.train(checkpoint_path(far.options.output_dir, 3));
  EXPECT_EQ(resumed.steps_here, 3);
  expect_same_files(near.options.output_dir, far.options.output_dir, {"model.safetensors"});
}

INSTANTIATE_TEST_SUITE_P(Kinds, FarMemoryRun, testing::Values("fp32", "bf16", "fp16", "codes", "anomaly"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace plimsoll
