// Tests what a run takes from a checkpoint's state; trainer_test.cpp resumes whole runs.
#include "train/resume.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TrainerState state() {
  TrainerState state;
  state.total_steps = 10;
  state.seed = 42;
  state.examples = 7;
  state.device = "cpu";
  state.threads = 2;
  state.data = state.tokens = state.labels = state.images = "0123";
  state.options = "learning rate 5e-05";
  return state;
}

TEST(Resume, TheSameRunHasNoChanges) { EXPECT_EQ(resume_changes(state(), state()), ""); }

TEST(Resume, NamesWhatChangesResults) {
  TrainerState now = state();
  now.seed = 43;
  now.options = "learning rate 1e-04";
  EXPECT_EQ(resume_changes(state(), now),
            "--seed: 42 then, 43 now; options: learning rate 5e-05 then, learning rate 1e-04 now");
}

// Threads mean nothing on another device; other windows have other words, labels and pictures anyway.
TEST(Resume, NamesAChangeOnce) {
  TrainerState device = state(), data = state(), labels = state();
  device.device = "cuda";
  device.threads = 8;
  EXPECT_EQ(resume_changes(state(), device), "device: cpu then, cuda now");
  data.data = data.tokens = data.labels = data.images = "4567";
  EXPECT_EQ(resume_changes(state(), data), "other training data");
  labels.labels = "4567";
  EXPECT_EQ(resume_changes(state(), labels), "other labels on the words of the training data");
}

TEST(Resume, WhatAnOlderCheckpointDoesNotTellIsTakenToBeTheSame) {
  TrainerState then = state();
  then.device = then.data = then.tokens = then.labels = then.images = then.options = "";
  EXPECT_EQ(resume_changes(then, state()), "");
}

TEST(Resume, TheKeyIsTheNewRunsAndTheRestTheCheckpoints) {
  TrainerState saved = state(), initial = state();
  saved.step = 4;
  saved.scaler = {.scale = 1024, .since_change = 3, .skipped = 2};
  saved.interval_loss = 1.5;
  saved.interval_steps = 3;
  saved.best_metric = 0.5;
  saved.best_step = 2;
  saved.evaluation_due = true;
  saved.skipped_pages = {{.evaluation = false, .page = 3}};
  initial.seed = 43;
  initial.total_steps = 20;
  const TrainerState resumed = resumed_state(saved, initial, true);
  EXPECT_EQ(resumed.seed, 43U);
  EXPECT_EQ(resumed.total_steps, 20);
  EXPECT_EQ(resumed.step, 4);
  EXPECT_EQ(resumed.scaler.skipped, 2);
  EXPECT_EQ(resumed.interval_loss, 1.5);
  EXPECT_EQ(resumed.interval_steps, 3);
  EXPECT_EQ(resumed.best_metric, 0.5);
  EXPECT_EQ(resumed.best_step, 2);
  EXPECT_TRUE(resumed.evaluation_due);
  EXPECT_EQ(resumed.skipped_pages.size(), 1U);
  EXPECT_FALSE(resumed_state(saved, initial, false).evaluation_due);  // there is nothing to evaluate on
}

TEST(Resume, OtherMetricsOrDataForgetTheBestEvaluation) {
  TrainerState saved = state(), initial = state();
  saved.best_metric = 0.5;
  saved.best_step = 2;
  saved.evaluations_without_gain = 3;
  saved.judged_by = "loss, on 1/2";
  initial.judged_by = "f1, on 1/2";
  EXPECT_EQ(resumed_state(saved, initial, true).best_metric, std::nullopt);
  EXPECT_EQ(resumed_state(saved, initial, true).evaluations_without_gain, 0);
  initial.judged_by = "loss, on 1/2";
  saved.greater_is_better = false;
  initial.greater_is_better = true;
  EXPECT_EQ(resumed_state(saved, initial, true).best_metric, std::nullopt);
  // A direction that is not given may be the same. Empty: an older checkpoint, or no evaluations now.
  for (const std::optional<bool> direction : {std::optional<bool>(), std::optional(false)}) {
    initial.greater_is_better = direction;
    for (const char* alike : {"loss, on 1/2", ""}) {
      initial.judged_by = alike;
      EXPECT_EQ(resumed_state(saved, initial, true).best_metric, 0.5);
    }
  }
}

}  // namespace
}  // namespace plimsoll
