// Tests what a GPU's speeds are made of: the time of a call is one thing, the time of its work another.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "fit/calibration.h"
#include "fit/small_request.h"

namespace plimsoll::test {
namespace {

TEST(CudaCalibration, ACallTakesTimeOfItsOwn) {
  CudaBackend backend;
  constexpr std::int64_t kFewRows = 10;
  const OpSpeeds speeds = measure_speeds(backend, layoutlmv3(small_config()), DType::kBF16, kFewRows);
  EXPECT_GT(speeds.seconds_per_start, 0);
  for (const double seconds : speeds.seconds_per_unit) EXPECT_GT(seconds, 0);
  EXPECT_EQ(parse_speeds(speeds_json(speeds), "").seconds_per_start, speeds.seconds_per_start);
}

}  // namespace
}  // namespace plimsoll::test
