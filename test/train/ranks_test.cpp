// Several ranks, as threads, train one model: every stage gives the same bits, and one process the same losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <mutex>

#include "bundle/adapter.h"
#include "support/thread_ranks.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

struct Trained {
  std::vector<double> losses, norms;
  std::string model;      // the bytes of its weights
  std::string optimizer;  // of the last checkpoint
};

using Setup = std::function<void(SmallRun&)>;

// A model directory that adapters can be trained for, made once.
fs::path base_model() {
  static const ScratchFolder folder;
  static const fs::path path = [] {
    const fs::path model = folder.path() / "base";
    fs::create_directories(model);
    SmallRun run(model);
    run.options.max_steps = 1;
    run.train();
    return model;
  }();
  return path;
}

Trained train(int ranks, int stage, const Setup& setup, const ScratchFolder& folder) {
  const fs::path output = folder.path() / "run";
  fs::remove_all(output);
  fs::create_directories(output);
  Trained trained;
  const auto run = [&](Communicator* communicator) {
    SmallRun small(output);
    small.options.save_steps = 3;
    setup(small);
    small.ranks = communicator;
    small.zero_stage = stage;
    small.train();
    if (communicator != nullptr && communicator->rank() > 0) return;
    for (const StepReport& report : small.reports) {
      trained.losses.push_back(report.loss);
      trained.norms.push_back(report.gradient_norm);
    }
  };
  if (ranks == 1) {
    run(nullptr);
  } else {
    run_ranks(ranks, [&](Communicator& communicator) { run(&communicator); });
  }
  const bool adapter = fs::exists(output / "adapter_model.safetensors");
  trained.model = file_bytes(output / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
  trained.optimizer = file_bytes(output / "checkpoint-6" / "optimizer.safetensors");
  return trained;
}

struct Case {
  std::string name;
  Setup setup;
  double tolerance = 1e-5;  // of losses against one process, relative
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class Ranks : public testing::TestWithParam<Case> {
 protected:
  ScratchFolder folder_;
};

TEST_P(Ranks, EveryStageTrainsTheSameBits) {
  const Trained alone = train(1, 0, GetParam().setup, folder_);
  for (const int ranks : {2, 3}) {
    const Trained first = train(ranks, 0, GetParam().setup, folder_);
    ASSERT_EQ(first.losses.size(), alone.losses.size());
    for (std::size_t i = 0; i < first.losses.size(); ++i) {
      EXPECT_NEAR(first.losses[i], alone.losses[i], GetParam().tolerance * alone.losses[i]) << ranks << " ranks, " << i;
      EXPECT_NEAR(first.norms[i], alone.norms[i], 10 * GetParam().tolerance * alone.norms[i])
          << ranks << " ranks, " << i;
    }
    EXPECT_EQ(first.optimizer.size(), alone.optimizer.size()) << "a checkpoint does not depend on the ranks";
    for (const int stage : {1, 2, 3}) {
      const Trained other = train(ranks, stage, GetParam().setup, folder_);
      EXPECT_EQ(other.losses, first.losses) << ranks << " ranks, stage " << stage;
      EXPECT_EQ(other.norms, first.norms) << ranks << " ranks, stage " << stage;
      EXPECT_TRUE(other.model == first.model) << ranks << " ranks, stage " << stage;
      EXPECT_TRUE(other.optimizer == first.optimizer) << ranks << " ranks, stage " << stage;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Ranks,
    testing::Values(Case{.name = "AdamW", .setup = [](SmallRun& run) { run.micro_batch = 4; }},
                    Case{.name = "MicroBatches",
                         .setup =
                             [](SmallRun& run) {
                               run.micro_batch = 1;
                               run.sums_each_micro_batch = false;
                             }},
                    Case{.name = "SumsInEachMicroBatch",
                         .setup =
                             [](SmallRun& run) {
                               run.micro_batch = 1;
                               run.sums_each_micro_batch = true;
                             }},
                    Case{.name = "UpdatesInBackward",
                         .setup =
                             [](SmallRun& run) {
                               run.micro_batch = 4;
                               run.options.max_grad_norm = 0;
                             }},
                    Case{.name = "Adafactor",
                         .setup = [](SmallRun& run) { run.options.optim = OptimizerKind::kAdafactor; }},
                    Case{.name = "AdamW8bit",
                         .setup = [](SmallRun& run) { run.options.optim = OptimizerKind::kAdamW8bit; },
                         .tolerance = 1e-2},
                    Case{.name = "BFloat16",
                         .setup = [](SmallRun& run) { run.options.precision = DType::kBF16; },
                         .tolerance = 1e-2},
                    Case{.name = "Evaluates",
                         .setup =
                             [](SmallRun& run) {
                               run.evaluates = true;
                               run.options.eval_steps = 2;
                               run.options.load_best_model_at_end = true;
                             }},
                    Case{.name = "Adapters",
                         .setup =
                             [](SmallRun& run) {
                               run.parts.lora_rank = 4;
                               run.model = base_model();
                             }}),
    [](const testing::TestParamInfo<Case>& of) { return of.param.name; });

// Weights that one update makes huge: the first evaluation meets NaN, and the ranks look for its source together, also
// where none of them has all parameters.
TEST(RankEvaluation, NamesWhereLogitsBecomeNaN) {
  for (const int stage : {0, 3}) {
    const ScratchFolder folder;
    const fs::path output = folder.path() / "run";
    fs::create_directories(output);
    std::mutex mutex;
    std::vector<std::string> found;
    EXPECT_THROW(run_ranks(2,
                           [&](Communicator& communicator) {
                             SmallRun small(output);
                             small.evaluates = true;
                             small.options.eval_steps = 1;
                             small.options.max_steps = 3;
                             small.options.learning_rate = 1e30;
                             small.ranks = &communicator;
                             small.zero_stage = stage;
                             try {
                               small.train();
                             } catch (const DivergedError& error) {
                               const std::scoped_lock lock(mutex);
                               found.push_back(error.problem().found);
                               throw;
                             }
                           }),
                 DivergedError)
        << stage;
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0], found[1]);
    EXPECT_THAT(found[0], testing::HasSubstr("makes")) << stage;
  }
}

// Asks one of two ranks after its message number `at` to the other, so that one may have been asked what the other has
// not.
struct AskedInBetween {
  std::int64_t messages = 0;  // of rank 0
  int ended = 0;              // ranks that a signal has ended
  std::string model;
  std::size_t checkpoints = 0;

  AskedInBetween(const ScratchFolder& folder, std::int64_t at, const std::function<void(Interrupt&)>& ask) {
    const fs::path output = folder.path() / "run";
    fs::remove_all(output);
    fs::create_directories(output);
    std::mutex mutex;
    run_ranks(2, [&](ThreadCommunicator& communicator) {
      SmallRun small(output);
      small.options.max_steps = 3;
      small.options.eval_steps = 2;
      small.options.load_best_model_at_end = true;
      small.evaluates = true;
      small.ranks = &communicator;
      small.with_interrupt = [&, sent = std::int64_t{0}](Interrupt& interrupt) mutable {
        communicator.after_send = [&, at](std::int64_t ticket) {
          if (ticket != Communicator::kHostTicket) return;
          if (++sent == at && communicator.rank() == at / 2 % 2) ask(interrupt);
          if (communicator.rank() == 0) messages = sent;
        };
      };
      try {
        small.train();
      } catch (const InterruptedError& error) {
        EXPECT_EQ(static_cast<int>(error.exit_code()), 128 + SIGTERM) << error.what();
        const std::scoped_lock lock(mutex);
        ++ended;
      }
    });
    checkpoints = list_checkpoints(output).size();
    if (fs::exists(output / "model.safetensors")) model = file_bytes(output / "model.safetensors");
  }
};

TEST(RankRequests, RanksDecideAlikeWhenASignalComesInBetween) {
  const ScratchFolder folder;
  const AskedInBetween whole(folder, 0, {});
  ASSERT_GT(whole.messages, 10);
  for (std::int64_t at = 1; at <= whole.messages; at += 2) {
    const AskedInBetween saved(folder, at, [](Interrupt& interrupt) { interrupt.request_save(); });
    EXPECT_EQ(saved.ended, 0) << "after message " << at;
    EXPECT_TRUE(saved.model == whole.model) << "after message " << at;
    EXPECT_GE(saved.checkpoints, whole.checkpoints) << "after message " << at;
    const AskedInBetween ended(folder, at, [](Interrupt& interrupt) { interrupt.request_end(SIGTERM); });
    EXPECT_TRUE(ended.ended == 2 || ended.model == whole.model) << "after message " << at;
    EXPECT_NE(ended.ended, 1) << "after message " << at;
  }
}

}  // namespace
}  // namespace plimsoll::test
