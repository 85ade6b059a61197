// Compares the learning rate's schedules with values worked out by hand.
#include "train/options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll {
namespace {

std::vector<double> rates(SchedulerType type, double warmup_ratio, std::int64_t total) {
  TrainOptions options;
  options.learning_rate = 8;
  options.lr_scheduler_type = type;
  options.warmup_ratio = warmup_ratio;
  std::vector<double> found;
  for (std::int64_t step = 0; step < total; ++step) found.push_back(scheduled_learning_rate(options, step, total));
  return found;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "update " << i;
}

TEST(Schedule, Linear) {
  expect_near(rates(SchedulerType::kLinear, 0, 4), {8, 6, 4, 2});
  expect_near(rates(SchedulerType::kLinear, 0.5, 8), {0, 2, 4, 6, 8, 6, 4, 2});
  // ceil(5 * 0.3) = 2 updates of warm-up.
  expect_near(rates(SchedulerType::kLinear, 0.3, 5), {0, 4, 8, 16.0 / 3, 8.0 / 3});
}

TEST(Schedule, Cosine) {
  expect_near(rates(SchedulerType::kCosine, 0, 4), {8, 4 + 2.8284271247461903, 4, 4 - 2.8284271247461903});
  expect_near(rates(SchedulerType::kCosine, 0.5, 4), {0, 4, 8, 4});
}

TEST(Schedule, WarmUpInUpdates) {
  TrainOptions options;
  options.learning_rate = 8;
  options.warmup_ratio = 0.5;
  options.warmup_steps = 2;
  const auto rate = [&](std::int64_t step) { return scheduled_learning_rate(options, step, 6); };
  expect_near({rate(0), rate(1), rate(2), rate(4)}, {0, 4, 8, 4});
  options.lr_scheduler_type = SchedulerType::kConstantWithWarmup;
  expect_near({rate(0), rate(1), rate(2), rate(5)}, {0, 4, 8, 8});
  // A run that is shorter than its warm-up never reaches the peak.
  options.warmup_steps = 12;
  expect_near({rate(0), rate(5)}, {0, 8 * 5.0 / 12});
}

TEST(Schedule, ConstantKnowsNoWarmUp) { expect_near(rates(SchedulerType::kConstant, 0.5, 3), {8, 8, 8}); }

TEST(Schedule, NamesAreThoseOfTransformers) {
  for (const SchedulerType type :
       {SchedulerType::kLinear, SchedulerType::kCosine, SchedulerType::kConstant, SchedulerType::kConstantWithWarmup}) {
    EXPECT_EQ(parse_scheduler_type(scheduler_type_name(type)), type);
  }
  EXPECT_THROW(parse_scheduler_type("polynomial"), UsageError);
}

}  // namespace
}  // namespace plimsoll
