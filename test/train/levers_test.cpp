// Levers that change only bytes and time: with one micro-batch, a run's losses and its saved model have the same bits.
#include <gtest/gtest.h>

#include <map>

#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

struct Outcome {
  std::vector<double> losses, norms;
  std::string model;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome(std::int64_t micro, std::optional<UpdateMode> update, RecomputeMode recompute, double max_grad_norm) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.micro_batch = micro;
  run.update = update;
  run.recompute = recompute;
  run.options.max_grad_norm = max_grad_norm;
  run.train();
  Outcome result;
  for (const StepReport& report : run.reports) {
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradient_norm);
  }
  result.model = file_bytes(folder.path() / "run" / "model.safetensors");
  return result;
}

TEST(Levers, ChangeNoBitOfAClippedRun) {
  const Outcome plain = outcome(4, UpdateMode::kAfterBackward, RecomputeMode::kNone, 0.5);
  ASSERT_EQ(plain.losses.size(), 6U);
  for (const UpdateMode update : {UpdateMode::kAfterBackward, UpdateMode::kTwoPasses}) {
    for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kLayers}) {
      EXPECT_TRUE(outcome(4, update, recompute, 0.5) == plain) << update_mode_name(update);
    }
  }
  // Accumulation may recompute, too; its sums have another order, so it is compared with itself.
  EXPECT_TRUE(outcome(2, std::nullopt, RecomputeMode::kLayers, 0.5) ==
              outcome(2, std::nullopt, RecomputeMode::kNone, 0.5));
}

TEST(Levers, ChangeNoBitOfARunWithoutClipping) {
  const Outcome plain = outcome(4, UpdateMode::kAfterBackward, RecomputeMode::kNone, 0);
  for (const UpdateMode update : {UpdateMode::kInBackward, UpdateMode::kTwoPasses}) {
    for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kLayers}) {
      EXPECT_TRUE(outcome(4, update, recompute, 0) == plain) << update_mode_name(update);
    }
  }
  EXPECT_FALSE(outcome(4, UpdateMode::kAfterBackward, RecomputeMode::kNone, 0.5) == plain)
      << "clipping has no effect here";
}

}  // namespace
}  // namespace plimsoll::test
