// Judgements beside right and wrong, against numbers worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tasks/parts/judgement.h"

namespace plimsoll::test {
namespace {

using testing::ElementsAre;

TEST(CalibrationError, IsTheDistanceOfConfidenceFromBeingRight) {
  CalibrationError none, sure, unsure;
  EXPECT_FALSE(none.value());
  for (int i = 0; i < 4; ++i) sure.add(1.0, true);
  EXPECT_DOUBLE_EQ(*sure.value(), 0);
  // Ten at 0.9, of which six are right, and ten at 0.5, of which five are: (10 * 0.3 + 10 * 0) / 20.
  for (int i = 0; i < 10; ++i) {
    unsure.add(0.9, i < 6);
    unsure.add(0.5, i < 5);
  }
  EXPECT_NEAR(*unsure.value(), 0.15, 1e-12);
  // Bins are taken one by one: errors in opposite directions do not cancel.
  CalibrationError opposite;
  opposite.add(0.9, false);
  opposite.add(0.1, true);
  EXPECT_NEAR(*opposite.value(), 0.9, 1e-12);
  // The edges belong to bins.
  CalibrationError edges;
  edges.add(0, false);
  edges.add(1, true);
  EXPECT_DOUBLE_EQ(*edges.value(), 0);
}

TEST(CrossEntropy, IsThatOfASoftmax) {
  const std::array<float, 3> logits = {1, 2, 3};
  EXPECT_NEAR(cross_entropy_of(logits, 0), std::log(std::exp(-2) + std::exp(-1) + 1) + 2, 1e-12);
  const std::array<float, 2> far = {1000, -1000};
  EXPECT_DOUBLE_EQ(cross_entropy_of(far, 1), 2000);
}

TEST(ConfusionCounts, ShowTheNamesThatOccur) {
  ConfusionCounts counts({"a", "b", "c", "d"});
  EXPECT_TRUE(counts.matrix().names.empty());
  counts.add(0, 0);
  counts.add(0, 2);
  counts.add(2, 0);
  counts.add(2, 0);
  EXPECT_THAT(counts.matrix().names, ElementsAre("a", "c"));
  EXPECT_THAT(counts.matrix().counts, ElementsAre(1, 1, 2, 0));
}

}  // namespace
}  // namespace plimsoll::test
