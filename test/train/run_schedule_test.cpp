#include "train/run_schedule.h"

#include <gtest/gtest.h>

#include <vector>

#include "train/throughput.h"

namespace plimsoll {
namespace {

std::vector<std::int64_t> steps_of(const RunSchedule& schedule, bool (RunSchedule::*due)(std::int64_t) const,
                                   std::int64_t total) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= total; ++step) {
    if ((schedule.*due)(step)) steps.push_back(step);
  }
  return steps;
}

TEST(RunSchedule, EpochsAreRoundedUpToUpdates) {
  TrainOptions options;
  options.num_train_epochs = 1.5;
  EXPECT_EQ(total_steps(options, 7), 11);
  options.max_steps = 3;
  EXPECT_EQ(total_steps(options, 7), 3);
}

TEST(RunSchedule, TheLastUpdateIsLoggedAndEvaluatedButSavedOnlyInTurn) {
  TrainOptions options;
  options.logging_steps = 4;
  options.save_steps = 3;
  options.eval_steps = 5;
  const RunSchedule schedule(options, 11, 7, true);
  EXPECT_EQ(steps_of(schedule, &RunSchedule::logs_after, 11), (std::vector<std::int64_t>{4, 8, 11}));
  EXPECT_EQ(steps_of(schedule, &RunSchedule::saves_after, 11), (std::vector<std::int64_t>{3, 6, 9}));
  EXPECT_EQ(steps_of(schedule, &RunSchedule::evaluates_after, 11), (std::vector<std::int64_t>{5, 10, 11}));
}

TEST(RunSchedule, WithoutStepsItEvaluatesAfterEachEpochAndNeverSaves) {
  TrainOptions options;
  options.save_steps = options.eval_steps = options.logging_steps = 0;
  const RunSchedule schedule(options, 16, 7, true), without(options, 16, 7, false);
  EXPECT_EQ(steps_of(schedule, &RunSchedule::evaluates_after, 16), (std::vector<std::int64_t>{7, 14, 16}));
  EXPECT_TRUE(steps_of(without, &RunSchedule::evaluates_after, 16).empty());
  EXPECT_TRUE(steps_of(schedule, &RunSchedule::saves_after, 16).empty());
  EXPECT_EQ(steps_of(schedule, &RunSchedule::logs_after, 16), std::vector<std::int64_t>{16});
}

TEST(Throughput, IsTheMeanOverAllUpdates) {
  Throughput throughput;
  EXPECT_EQ(throughput.pages_per_second(), 0);
  EXPECT_EQ(throughput.data_wait(), 0);
  throughput.add({.pages = 8, .seconds = 1, .wait_seconds = 0.5});
  throughput.add({.pages = 4, .seconds = 3, .wait_seconds = 0.5});
  EXPECT_EQ(throughput.pages(), 12);
  EXPECT_DOUBLE_EQ(throughput.pages_per_second(), 3);
  EXPECT_DOUBLE_EQ(throughput.data_wait(), 0.25);
}

}  // namespace
}  // namespace plimsoll
