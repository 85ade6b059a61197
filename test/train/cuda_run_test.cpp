// Tests whole runs on the CUDA backend, with kernels run by the emulator: the same losses as on the CPU, the same bits
// when run again, resumed, or launched kernel by kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "cuda_emulator.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

struct RunKind {
  const char* name;
  DType precision = DType::kF32;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  std::int64_t micro_batch = 2;
  RecomputeMode recompute = RecomputeMode::kAuto;
  bool offload = false;
};

std::ostream& operator<<(std::ostream& stream, const RunKind& kind) { return stream << kind.name; }

class CudaRun : public testing::TestWithParam<RunKind> {
 protected:
  static void set(SmallRun& run) {
    const RunKind& kind = GetParam();
    run.options.precision = kind.precision;
    run.options.optim = kind.optimizer;
    run.options.max_steps = 4;
    run.options.save_steps = 2;
    run.micro_batch = kind.micro_batch;
    run.recompute = kind.recompute;
    run.evaluates = !kind.offload;
    run.offload = kind.offload;
    if (kind.offload) run.options.pad_to = 128;  // activations large enough to be offloaded
  }
  static std::unique_ptr<Backend> recording() { return std::make_unique<CudaBackend>(); }
  static std::unique_ptr<Backend> one_by_one() {
    auto backend = std::make_unique<CudaBackend>();
    backend->start_one_by_one();
    return backend;
  }
};

TEST_P(CudaRun, LearnsAsTheCpuDoesAndRepeats) {
  const ScratchFolder folder;
  SmallRun cpu(folder.make("cpu")), cuda(folder.make("cuda")), again(folder.make("again"));
  for (SmallRun* run : {&cpu, &cuda, &again}) set(*run);
  cuda.make_backend = recording;
  again.make_backend = one_by_one;
  EXPECT_FALSE(cpu.train().device_busy);
  cuda_emulator::graph_calls() = {};
  EXPECT_GT(cuda.train().device_busy, 0);
  EXPECT_GT(cuda_emulator::graph_calls().captures, 0);
  EXPECT_GE(cuda_emulator::graph_calls().launches, cuda_emulator::graph_calls().captures);
  cuda_emulator::graph_calls() = {};
  cuda_emulator::set_lazy(true);
  again.train();
  cuda_emulator::set_lazy(false);
  EXPECT_EQ(cuda_emulator::graph_calls().captures, 0);

  if (GetParam().offload) {
    EXPECT_GT(cuda.offloaded_state_bytes, 0U);
    EXPECT_GT(cuda.offloaded_activation_bytes, 0U);
  }
  ASSERT_EQ(cpu.reports.size(), cuda.reports.size());
  // Only the first losses are compared, because later ones drift apart with rounding.
  const double tolerance = GetParam().precision == DType::kF32 ? 1e-5 : 2e-2;
  for (std::size_t i = 0; i < cpu.reports.size(); ++i) {
    EXPECT_NEAR(cuda.reports[i].loss, cpu.reports[i].loss, tolerance * cpu.reports[i].loss) << "update " << i + 1;
  }
  const fs::path& recorded = cuda.options.output_dir;
  for (const char* name :
       {"model.safetensors", "checkpoint-2/model.safetensors", "checkpoint-2/optimizer.safetensors"}) {
    EXPECT_TRUE(file_bytes(recorded / name) == file_bytes(again.options.output_dir / name)) << name;
  }
  const std::string whole = file_bytes(recorded / "model.safetensors");
  EXPECT_EQ(cuda.train(checkpoint_path(recorded, 2)).steps_here, 2);
  EXPECT_TRUE(file_bytes(recorded / "model.safetensors") == whole);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CudaRun,
    testing::Values(RunKind{.name = "fp32"}, RunKind{.name = "bf16", .precision = DType::kBF16},
                    RunKind{.name = "fp16", .precision = DType::kF16},
                    RunKind{.name = "codes", .optimizer = OptimizerKind::kAdamW8bit},
                    RunKind{.name = "adafactor", .optimizer = OptimizerKind::kAdafactor},
                    RunKind{.name = "whole_batch", .micro_batch = 4},
                    RunKind{.name = "offloading", .micro_batch = 4, .offload = true},
                    RunKind{.name = "recomputing", .precision = DType::kBF16, .recompute = RecomputeMode::kLayers}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST(CudaRunWithoutRoom, ForGraphsStartsKernelsOneByOne) {
  const ScratchFolder folder;
  SmallRun recorded(folder.make("recorded")), refused(folder.make("refused"));
  for (SmallRun* run : {&recorded, &refused}) {
    run->options.max_steps = 4;
    run->make_backend = [] { return std::make_unique<CudaBackend>(); };
  }
  recorded.train();
  cuda_emulator::machine().has_room_for_graphs = false;
  cuda_emulator::graph_calls() = {};
  refused.train();
  cuda_emulator::machine() = {};
  EXPECT_GT(cuda_emulator::graph_calls().captures, 0);
  EXPECT_EQ(cuda_emulator::graph_calls().launches, 0);
  EXPECT_TRUE(file_bytes(recorded.options.output_dir / "model.safetensors") ==
              file_bytes(refused.options.output_dir / "model.safetensors"));
}

// After some updates a kernel accesses invalid memory.
class CudaFailure : public testing::Test {
 protected:
  void TearDown() override { cuda_emulator::machine() = {}; }

  Problem fail(bool detect_anomaly) {
    SmallRun run(folder_.make(detect_anomaly ? "checked" : "run"));
    run.options.max_steps = 4;
    run.options.save_steps = 2;
    run.options.detect_anomaly = detect_anomaly;
    run.make_backend = [] { return std::make_unique<CudaBackend>(); };
    run.on_step = [](const StepReport& report) {
      if (report.step == 3) cuda_emulator::machine().kernels_until_failure = 20;
    };
    try {
      run.train();
    } catch (const EnvironmentError& error) {
      EXPECT_EQ(list_checkpoints(run.options.output_dir), std::vector<std::int64_t>{2});
      return error.problem();
    }
    ADD_FAILURE() << "the run ended as if nothing had been";
    return {};
  }

 private:
  const ScratchFolder folder_;
};

TEST_F(CudaFailure, EndsTheRunAndNamesTheGoodCheckpoint) {
  const Problem problem = fail(false);
  EXPECT_THAT(problem.what, testing::HasSubstr("cannot finish update 4: the GPU failed"));
  EXPECT_EQ(problem.found, "an illegal memory access was encountered");
  EXPECT_THAT(problem.remedy, testing::HasSubstr("--resume-from-checkpoint latest, from update 2"));
  EXPECT_THAT(problem.remedy, testing::HasSubstr("--detect-anomaly"));
}

TEST_F(CudaFailure, IsOfAnOpWhereOpsRunOneByOne) {
  const Problem problem = fail(true);
  EXPECT_THAT(problem.what, testing::HasSubstr("cannot finish update 4: the GPU failed"));
  EXPECT_THAT(problem.where, testing::MatchesRegex("[a-z_]+ '[^']+', which makes '[^']+' (F32|I32).*"));
  EXPECT_THAT(problem.remedy, testing::Not(testing::HasSubstr("--detect-anomaly")));
}

}  // namespace
}  // namespace plimsoll
