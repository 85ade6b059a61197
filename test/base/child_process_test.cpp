#include "base/child_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>

namespace plimsoll {
namespace {

TEST(ChildProcess, HasOutputErrorsAndExitCode) {
  const ChildResult result = run_child("/bin/sh", {"-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_FALSE(result.succeeded());
  EXPECT_EQ(run_child("/bin/sh", {"-c", "kill -9 $$"}).exit_code, 137);
}

TEST(ChildProcess, ArgumentsAreNotAShells) {
  EXPECT_EQ(run_child("/bin/echo", {"$(id)", "a b", "*", ";"}).output, "$(id) a b * ;\n");
}

TEST(ChildProcess, WritesAndTakesNoMoreThanItMay) {
  const ChildResult endless = run_child("/usr/bin/yes", {}, {.output_bytes = 100'000});
  EXPECT_TRUE(endless.too_long);
  EXPECT_LE(endless.output.size(), 100'000U);
  const ChildResult slow = run_child("/bin/sleep", {"100"}, {.time = std::chrono::seconds(1)});
  EXPECT_TRUE(slow.too_slow);
}

TEST(ChildProcess, EndsWithWhoeverTakesItsOutput) {
  const auto take = [](std::span<const std::byte>) { throw std::runtime_error("the disk is full"); };
  EXPECT_THROW(run_child("/usr/bin/yes", {}, {}, take), std::runtime_error);
}

TEST(ChildProcess, InTheForegroundHasTheProgramsExitCode) {
  EXPECT_EQ(run_in_foreground("/bin/sh", {"-c", "exit 3"}), 3);
  EXPECT_EQ(run_in_foreground("/bin/sh", {"-c", "kill -9 $$"}), 137);
  // A signal to this process is the program's, which may finish its work.
  EXPECT_EQ(run_in_foreground("/bin/sh", {"-c", "trap 'exit 7' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"}),
            7);
}

}  // namespace
}  // namespace plimsoll
