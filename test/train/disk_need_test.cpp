// Tests that a run knows before it begins whether the disk has room for its checkpoints.
#include "train/disk_need.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/error.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

PlannedSaves saving(std::int64_t every, std::int64_t limit, std::int64_t step = 0, std::int64_t total = 100,
                    std::int64_t existing = 0) {
  return {.every = every, .limit = limit, .step = step, .total_steps = total, .existing = existing};
}

constexpr WrittenBytes kWritten{.checkpoint = 3 * kGiB, .model = kGiB};

std::int64_t checkpoints(const PlannedSaves& saves) {
  const DiskNeed need = disk_need(saves, kWritten);
  EXPECT_EQ(need.bytes, kGiB + static_cast<std::uint64_t>(need.checkpoints) * 3 * kGiB);
  return need.checkpoints;
}

TEST(DiskNeed, CountsTheCheckpointsThatLieThereAtOnce) {
  EXPECT_EQ(checkpoints(saving(0, 0, 0, 100, 0)), 0);
  EXPECT_EQ(checkpoints(saving(10, 0, 0, 100, 0)), 10);
  EXPECT_EQ(checkpoints(saving(10, 0, 0, 95, 0)), 10);   // one more at the end
  EXPECT_EQ(checkpoints(saving(10, 0, 35, 95, 3)), 7);   // 40, 50, … 90 and the end
  EXPECT_EQ(checkpoints(saving(500, 0, 0, 100, 0)), 1);  // only the one at the end
  EXPECT_EQ(checkpoints(saving(10, 2, 0, 100, 0)), 3);   // the next one is complete before one is removed
  EXPECT_EQ(checkpoints(saving(10, 2, 50, 100, 2)), 1);
  EXPECT_EQ(checkpoints(saving(10, 2, 50, 100, 5)), 1);
  EXPECT_EQ(checkpoints(saving(50, 2, 0, 50, 0)), 1);
  EXPECT_EQ(checkpoints(saving(10, 0, 100, 100, 10)), 0);  // nothing is left to train
}

TEST(DiskNeed, RefusesAndSaysWhatWouldFit) {
  EXPECT_NO_THROW(check_disk("run", saving(10, 0), kWritten, 31 * kGiB));
  expect_error<EnvironmentError>(
      [] { check_disk("run", saving(10, 0), kWritten, 31 * kGiB - 1); },
      {"not enough disk space", "run", "10 checkpoints of 3.00 GiB and the model of 1.00 GiB", "31.0 GiB or more",
       "--output-dir", "--save-total-limit 1, which needs 7.00 GiB"});
  expect_error<EnvironmentError>([] { check_disk("run", saving(10, 0), kWritten, 2 * kGiB); },
                                 {"--save-steps 0, which needs 1.00 GiB"});
  expect_error<EnvironmentError>([] { check_disk("run", saving(0, 0), kWritten, kMiB); },
                                 {"1.00 MiB free; the model of 1.00 GiB", "1.00 GiB or more"});
}

}  // namespace
}  // namespace plimsoll::test
