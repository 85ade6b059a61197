// Tests offloading through the trainer: the same bits as in memory, in the model and in checkpoints; a failing disk.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

struct Way {
  std::int64_t micro = 4;
  std::optional<UpdateMode> update{};
  OptimizerKind optim = OptimizerKind::kAdamW;
  double max_grad_norm = 0.5;
  DType precision = DType::kF32;
};

void set_way(SmallRun& run, const Way& way, bool offload) {
  run.micro_batch = way.micro;
  run.update = way.update;
  run.options.optim = way.optim;
  run.options.max_grad_norm = way.max_grad_norm;
  run.options.precision = way.precision;
  run.options.save_steps = 3;
  run.options.pad_to = 128;  // activations large enough to be offloaded
  run.offload = offload;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::string model, optimizer;
  std::uint64_t states = 0, activations = 0, parameters = 0, in_place = 0;
};

Outcome outcome_of(const SmallRun& run, const fs::path& folder) {
  Outcome outcome;
  for (const StepReport& report : run.reports) {
    outcome.losses.push_back(report.loss);
    outcome.norms.push_back(report.gradient_norm);
  }
  outcome.model = file_bytes(folder / "model.safetensors");
  outcome.optimizer = file_bytes(folder / "checkpoint-6" / "optimizer.safetensors");
  outcome.states = run.offloaded_state_bytes;
  outcome.activations = run.offloaded_activation_bytes;
  outcome.parameters = run.offloaded_parameter_bytes;
  outcome.in_place = run.offloaded_in_place_bytes;
  return outcome;
}

Outcome train(const Way& way, bool offload) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  set_way(run, way, offload);
  run.train();
  return outcome_of(run, folder.path() / "run");
}

TEST(OffloadedRun, HasTheSameBits) {
  const std::vector<Way> ways = {
      {},
      {.update = UpdateMode::kTwoPasses},
      {.update = UpdateMode::kInBackward, .max_grad_norm = 0},
      {.micro = 2},
      {.micro = 1, .optim = OptimizerKind::kAdamW8bit},
      {.optim = OptimizerKind::kAdamW8bit},
      {.update = UpdateMode::kInBackward, .max_grad_norm = 0, .precision = DType::kBF16},
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Outcome plain = train(ways[i], false), offloaded = train(ways[i], true);
    EXPECT_EQ(plain.states, 0U);
    EXPECT_GT(offloaded.states, 0U) << i;
    EXPECT_EQ(plain.parameters, 0U);
    EXPECT_GT(offloaded.parameters, 0U) << i;
    EXPECT_TRUE(ways[i].micro < 4 || offloaded.activations > 0) << i;
    EXPECT_EQ(plain.losses, offloaded.losses) << i;
    EXPECT_EQ(plain.norms, offloaded.norms) << i;
    EXPECT_TRUE(plain.model == offloaded.model) << i;
    EXPECT_TRUE(plain.optimizer == offloaded.optimizer) << i;
  }
}

TEST(OffloadedRun, ContinuesBitForBitWithAndWithoutAFile) {
  for (const OptimizerKind optim : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit}) {
    const Way way{.micro = 2, .optim = optim};
    const Outcome straight = train(way, false);
    for (const bool first : {false, true}) {
      for (const bool second : {false, true}) {
        if (!first && !second) continue;
        const ScratchFolder folder;
        SmallRun run(folder.make("run"));
        set_way(run, way, first);
        EXPECT_THROW(run.train(std::nullopt, 3), InterruptedError);
        run.offload = second;
        run.train(checkpoint_path(folder.path() / "run", 3));
        const Outcome resumed = outcome_of(run, folder.path() / "run");
        EXPECT_TRUE(resumed.model == straight.model) << first << second;
        EXPECT_TRUE(resumed.optimizer == straight.optimizer) << first << second;
      }
    }
  }
}

// Frozen weights are read where the model has them, at every start.
TEST(OffloadedRun, FrozenWeightsStayInTheModelsFile) {
  const ScratchFolder folder;
  SmallRun first(folder.make("base")), second(folder.make("other"));
  first.options.max_steps = second.options.max_steps = 1;
  second.options.seed = 7;
  first.train();
  second.train();
  const auto set_up = [&](SmallRun& run, bool offload) {
    set_way(run, {.micro = 2}, offload);
    run.model = folder.path() / "base";
    run.parts.freeze = {"*.patch_embed.*"};
  };
  SmallRun plain(folder.make("plain")), offloaded(folder.make("offloaded"));
  set_up(plain, false);
  plain.train();
  const Outcome expected = outcome_of(plain, folder.path() / "plain");
  EXPECT_EQ(expected.in_place, 0U);
  set_up(offloaded, true);
  EXPECT_THROW(offloaded.train(std::nullopt, 3), InterruptedError);
  offloaded.train(checkpoint_path(folder.path() / "offloaded", 3));
  const Outcome found = outcome_of(offloaded, folder.path() / "offloaded");
  EXPECT_GT(found.in_place, 0U);
  EXPECT_TRUE(found.model == expected.model);
  EXPECT_TRUE(found.optimizer == expected.optimizer);
  offloaded.model = folder.path() / "other";
  expect_error<DataError>([&] { offloaded.train(checkpoint_path(folder.path() / "offloaded", 3)); },
                          {"patch_embed.proj.weight", (folder.path() / "other").string()});
}

// Forks a process in which no file may be written past `limit`, once the update after the first checkpoint has begun.
// 0: the run ended with a message that names update and checkpoint, and the checkpoint can be resumed.
TEST(OffloadedRun, ADiskThatFailsLeavesTheLastCheckpoint) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    int code = 1;
    try {
      SmallRun run(folder.make("run"));
      set_way(run, {}, true);
      run.limit_files_after_checkpoint = true;
      run.train();
    } catch (const EnvironmentError& error) {
      const Problem& p = error.problem();
      const bool named = p.what.find("cannot finish update 4") != std::string::npos &&
                         p.where.find(".store_begin'") != std::string::npos &&
                         p.remedy.find("--resume-from-checkpoint latest, from update 3") != std::string::npos;
      code = named ? 0 : 3;
    } catch (...) {
      code = 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(list_checkpoints(folder.path() / "run"), std::vector<std::int64_t>{3});
  SmallRun run(folder.make("run"));
  set_way(run, {}, true);
  run.train(checkpoint_path(folder.path() / "run", 3));
  EXPECT_TRUE(outcome_of(run, folder.path() / "run").model == train({}, false).model);
}

}  // namespace
}  // namespace plimsoll::test
