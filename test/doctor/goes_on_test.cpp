// A run that goes on prints lines of one shape, whatever library it uses.
#include "doctor/goes_on.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

std::string repeated(int times, const std::function<std::string(int)>& line) {
  std::string log;
  for (int i = 1; i <= times; ++i) log += line(i) + "\n";
  return log;
}

TEST(GoesOn, LinesOfOneShapeShowARunThatGoesOn) {
  const std::function<std::string(int)> tools[] = {
      [](int i) {
        return fmt::format("23-05-11 10:0{}:02.118 - INFO: End of epoch {} / 900 \t Time Taken: 7.{}1 sec", i, 40 + i,
                           i);
      },
      [](int i) {
        return fmt::format(
            "[2023-04-02 09:1{}:31,120] [INFO] [logging.py:77:log_dist] [Rank 0] step={}, skipped=3, "
            "lr=[2e-05], mom=[[0.9, 0.95]]",
            i, 20 * i);
      },
      [](int i) { return fmt::format("0/{}, SamplesPerSec=61.{}8, MemAllocated=1.1GB", 10 * i, i); },
      [](int i) { return fmt::format("time (ms) | forward: 11{}.2 | backward: 20{}.9 | step: 1.1", i, i); },
      [](int i) {
        return fmt::format(
            "2024/01/09 11:2{}:40 - mmengine - INFO - Epoch(train)  [3][{}/900]  lr: 1.0e-04  eta: 1:0{}:22", i, 50 * i,
            i);
      },
      [](int i) { return fmt::format("|    total_timesteps | {}     |", 4096 * i); },
      [](int i) { return fmt::format("Learning iteration {}/2000", i); },
      [](int i) { return fmt::format("INFO:tensorflow:global_step/sec: 4.{}21", i); },
      [](int i) { return fmt::format("epoch 1 - progress: at {}.1% examples, 71{}204 words/s", i, i); },
      [](int i) { return fmt::format("{}:\tlearn: 0.6{}21\ttotal: {}.2s\tremaining: 9.1s", 100 * i, 9 - i, i); },
      [](int i) { return fmt::format("tick {}     kimg {}.0   time {}m 02s   maintenance 0.1", i, 4 * i, i); },
      [](int i) { return fmt::format("step: {:2}  tps: 3,{}12  mfu: 39.{}%", 10 * i, i, i); },
      [](int i) { return fmt::format("train_iter={} episode_len=200 reward=-{}.5", i, 300 - i); },
      [](int i) { return fmt::format("iter_time=0.1{}, forward_time=0.2{}1, backward_time=0.3{}", i, i, i); },
      [](int i) { return fmt::format("Epoch {} done in 3{}.2 s", i, i); }};
  for (const auto& line : tools) {
    EXPECT_EQ(name_of(diagnose(repeated(4, line))), "no failure") << line(1);
    // Twice is no sign, and any word of trouble takes it away.
    EXPECT_EQ(name_of(diagnose(repeated(2, line))), "not recognised") << line(1);
    EXPECT_NE(name_of(diagnose(repeated(4, line) + "the node could not be reached\n")), "no failure") << line(1);
    EXPECT_NE(name_of(diagnose(repeated(4, line) + "OddError: the moon is full\n")), "no failure") << line(1);
    EXPECT_NE(name_of(diagnose(repeated(4, line) + "Traceback (most recent call last):\n  File \"t.py\", line 3\n")),
              "no failure")
        << line(1);
    EXPECT_EQ(name_of(diagnose(repeated(4, line) + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate "
                                                   "2.00 GiB\n")),
              "oom")
        << line(1);
  }
}

// What comes before training, or is none, says nothing.
TEST(GoesOn, OtherLinesOfOneShapeDoNot) {
  const std::function<std::string(int)> others[] = {
      [](int i) { return fmt::format("Tokenizing batch {}/40", i); },
      [](int i) { return fmt::format("processed {} samples, 31{} samples/s", 1000 * i, i); },
      [](int i) { return fmt::format("Loading checkpoint shards:  {}/5 [00:0{}<00:10, 2.{}s/it]", i, i, i); },
      [](int i) { return fmt::format("Retrying step {} in {} s", i, 2 * i); },
      [](int i) { return fmt::format("[2024-01-01 10:00:0{},12{}] [INFO] [rank {}] step 0 begins", i, i, i); },
      [](int i) { return fmt::format("  ({}): BatchNorm2d({}, eps=1e-05, momentum=0.1)", i, 64 * i); },
      [](int i) { return fmt::format("layer {}: lr {}.0e-05", i, i); },
      [](int i) { return fmt::format("page {} of 90: {} words", i, 100 + i); },
      [](int i) { return fmt::format("Waiting for step {}", i); },
      [](int i) { return fmt::format("OVERFLOW! Skipping step {}", i); }};
  for (const auto& line : others) EXPECT_NE(name_of(diagnose(repeated(6, line))), "no failure") << line(1);
  EXPECT_EQ(name_of(diagnose(repeated(6, [](int) { return "step 100 of 200: 1.25 s"; }))), "not recognised");
  EXPECT_EQ(name_of(diagnose("max_steps: 300\nwarmup_steps: 100\nlogging_steps: 10\nsave_steps: 100\n")),
            "not recognised");
}

// A stream of shapes that never come again does not grow the memory, nor hide one that does.
TEST(GoesOn, KeepsTheLastShapes) {
  GoesOnReader reader;
  bool found = false;
  for (int i = 0; i < 300; ++i) {
    found =
        reader.read(fmt::format("step {} of {}", i, std::string(static_cast<std::size_t>(i % 100) + 1, 'a'))) || found;
    found = reader.read("a line of words") || found;
  }
  EXPECT_FALSE(found);
  for (int i = 0; i < 3; ++i) found = reader.read(fmt::format("step {} took 1.{} s", i, i)) || found;
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace plimsoll::doctor
