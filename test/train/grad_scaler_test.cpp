#include "train/grad_scaler.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(GradScaler, ScalesNothingWhereItIsOff) {
  GradScaler scaler;
  EXPECT_FALSE(scaler.on());
  EXPECT_TRUE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(scaler.state().skipped, 0);
  EXPECT_FALSE(scaler.collapsed());
}

TEST(GradScaler, HalvesOnOverflowAndDoublesAfterManyGoodUpdates) {
  GradScaler scaler{GradScaler::State{}};
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_FALSE(scaler.update(false));
  EXPECT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 16384);
  for (std::int64_t i = 1; i < GradScaler::kGrowthInterval; ++i) ASSERT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 16384);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 32768);
  // An overflow restarts the count.
  for (std::int64_t i = 1; i < GradScaler::kGrowthInterval; ++i) scaler.update(true);
  scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16384);
  EXPECT_EQ(scaler.state().skipped, 3);
}

TEST(GradScaler, GoesOnFromItsState) {
  GradScaler scaler({.scale = 8, .since_change = GradScaler::kGrowthInterval - 1, .skipped = 4});
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16);
  EXPECT_EQ(scaler.state().skipped, 4);
}

TEST(GradScaler, CollapsesWhereNoScaleHelps) {
  GradScaler scaler{GradScaler::State{}};
  int updates = 0;
  for (; !scaler.collapsed(); ++updates) scaler.update(false);
  EXPECT_EQ(updates, 31);  // from 2^16 to 2^-15
}

}  // namespace
}  // namespace plimsoll
