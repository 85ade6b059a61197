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

using Steps = std::vector<std::int64_t>;

TEST(RunSchedule, StrategiesAreThoseOfTransformers) {
  TrainOptions options;
  options.logging_strategy = IntervalStrategy::kEpoch;
  options.logging_first_step = true;
  options.save_strategy = IntervalStrategy::kEpoch;
  options.eval_strategy = IntervalStrategy::kSteps;
  options.logging_steps = 4;  // how often to evaluate, where nothing else says so
  const RunSchedule schedule(options, 16, 7, true);
  EXPECT_EQ(steps_of(schedule, &RunSchedule::logs_after, 16), (Steps{1, 7, 14, 16}));
  EXPECT_EQ(steps_of(schedule, &RunSchedule::saves_after, 16), (Steps{7, 14}));
  EXPECT_EQ(steps_of(schedule, &RunSchedule::evaluates_after, 16), (Steps{4, 8, 12, 16}));
  options.logging_strategy = options.save_strategy = IntervalStrategy::kNo;
  options.eval_strategy = IntervalStrategy::kNo;
  options.logging_first_step = false;
  const RunSchedule silent(options, 16, 7, true);
  EXPECT_EQ(steps_of(silent, &RunSchedule::logs_after, 16), Steps{16});
  EXPECT_EQ(silent.save_every(), 0);
  EXPECT_TRUE(steps_of(silent, &RunSchedule::evaluates_after, 16).empty());
}

TEST(RunSchedule, FractionsAreOfAllUpdates) {
  TrainOptions options;
  options.logging_steps = 0.25;
  options.save_steps = 0.5;
  options.eval_steps = 0.3;
  const RunSchedule schedule(options, 11, 7, true);
  EXPECT_EQ(steps_of(schedule, &RunSchedule::logs_after, 11), (Steps{3, 6, 9, 11}));
  EXPECT_EQ(steps_of(schedule, &RunSchedule::saves_after, 11), Steps{6});
  EXPECT_EQ(steps_of(schedule, &RunSchedule::evaluates_after, 11), (Steps{4, 8, 11}));
}

TEST(RunSchedule, EvaluationsWait) {
  TrainOptions options;
  options.eval_delay = 1.5;  // epochs
  const RunSchedule epochs(options, 21, 7, true);
  EXPECT_EQ(steps_of(epochs, &RunSchedule::evaluates_after, 21), (Steps{14, 21}));
  options.eval_steps = 5;
  options.eval_delay = 6;  // updates
  const RunSchedule steps(options, 11, 7, true);
  EXPECT_EQ(steps_of(steps, &RunSchedule::evaluates_after, 11), (Steps{10, 11}));
  options.eval_delay = 12;
  EXPECT_TRUE(steps_of(RunSchedule(options, 11, 7, true), &RunSchedule::evaluates_after, 11).empty());
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
