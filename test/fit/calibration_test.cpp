#include "fit/calibration.h"

#include <gtest/gtest.h>

#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"
#include "graph/op_facts.h"

namespace plimsoll::test {
namespace {

double speed(const OpSpeeds& speeds, Op op, bool half = false) {
  return speeds.seconds_per_unit[(half ? kSpeedForms : 0) + static_cast<std::size_t>(op)];
}

// The step that is measured holds neither op.
TEST(Calibration, AnOpThatNoStepMeasuresHasTheSpeedOfTheOpThatItIsPricedLike) {
  ReferenceBackend backend;
  const OpSpeeds speeds = measure_speeds(backend, layoutlmv3(small_config()), DType::kF32);
  for (const bool half : {false, true}) {
    EXPECT_EQ(speed(speeds, Op::kLinearAdd, half), speed(speeds, Op::kLinear));
    EXPECT_EQ(speed(speeds, Op::kScale, half), speed(speeds, Op::kAdd));
  }
  for (const double seconds : speeds.seconds_per_unit) EXPECT_GT(seconds, 0);
}

// A loss over a few labels takes the time of its call: one over a vocabulary would seem to take minutes.
TEST(Calibration, AnOpOnLittleWorkHasTheSpeedOfTheOpThatItIsPricedLike) {
  ReferenceBackend backend;
  const OpSpeeds speeds = measure_speeds(backend, layoutlmv3(small_config()), DType::kF32);
  for (const Op op : {Op::kCrossEntropy, Op::kCrossEntropyPart}) EXPECT_EQ(speed(speeds, op), speed(speeds, Op::kAdd));
}

// A step in a half type has no attention in float32, and other ops are priced like it.
TEST(Calibration, EveryOpHasASpeedInEveryPrecision) {
  ReferenceBackend backend;
  for (const DType precision : {DType::kF32, DType::kBF16, DType::kF16}) {
    const OpSpeeds speeds = measure_speeds(backend, layoutlmv3(small_config()), precision);
    for (const double seconds : speeds.seconds_per_unit) EXPECT_GT(seconds, 0);
  }
}

TEST(Calibration, TypicalSpeedsOfLinearMapsAreTheSame) {
  for (const OpSpeeds& speeds : {typical_speeds(), typical_gpu_speeds()}) {
    for (const bool half : {false, true}) {
      for (const Op op : {Op::kLinearAdd, Op::kLinearInputGrad, Op::kLinearWeightGrad}) {
        EXPECT_EQ(speed(speeds, op, half), speed(speeds, Op::kLinear, half));
      }
      EXPECT_LT(speed(speeds, Op::kLinear, half), speed(speeds, Op::kAttention, half));
      EXPECT_LT(speed(speeds, Op::kAttention, half), speed(speeds, Op::kAdd, half));
    }
  }
  EXPECT_LT(speed(typical_gpu_speeds(), Op::kLinear, true), speed(typical_gpu_speeds(), Op::kLinear));
}

}  // namespace
}  // namespace plimsoll::test
