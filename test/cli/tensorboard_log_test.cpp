#include "cli/tensorboard_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "support/log_capture.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

// Simulates a full disk. A run must not lose its model for want of charts.
TEST(TensorBoardLog, WhatCannotBeWrittenIsToldOnce) {
  const ScratchFolder folder;
  const LogCapture said;
  TensorBoardLog log(folder.path(), std::nullopt);
  log.on_begin();
  EXPECT_NE(log.file(), nullptr);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  StepReport report;
  report.logs = true;
  for (report.step = 1; report.step < 4; ++report.step) log.on_step(report);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_action);
  EXPECT_TRUE(said.has("no more is written to")) << said.text();
  EXPECT_EQ(said.text().find("the run goes on"), said.text().rfind("the run goes on"));
  EXPECT_EQ(log.file(), nullptr);
}

}  // namespace
}  // namespace plimsoll::test
