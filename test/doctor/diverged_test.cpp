// A loss that rises far and stays there is a failure; noise, a spike, an evaluation's loss and sums of losses are none.
#include "doctor/diverged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

const std::string kRuntime = "{'train_runtime': 2913.4, 'train_loss': 0.7012, 'epoch': 3.0}\n";

// The Trainer's lines; the loss comes between `before` and `after`.
std::string lines(const std::vector<double>& losses, const std::string& before = "{'loss': ",
                  const std::string& after = ", 'grad_norm': 1.3, 'learning_rate': 5e-05, 'epoch': 0.4}\n") {
  std::string log;
  for (const double loss : losses) {
    std::string number = std::to_string(loss);
    log += before + number + after;
  }
  return log;
}
std::string said(const std::string& log) { return name_of(diagnose(log)); }

TEST(Diverged, ALossThatRisesAndStaysAbove) {
  const std::vector<double> from_start = {2.3, 2.9, 5.1, 19, 340, 1.2e5},
                            later = {2.3, 1.9, 1.2, 0.9, 0.8, 1.4, 3.2, 8.9, 33, 120, 480, 900},
                            level = {1.2, 0.9, 0.8, 2.5, 6.9, 9.8, 10.5, 10.6, 10.7, 10.6, 10.8, 10.7, 10.6, 10.7};
  for (const auto& losses : {from_start, later, level}) {
    const Diagnosis diagnosis = diagnose(lines(losses) + kRuntime);
    EXPECT_EQ(name_of(diagnosis), "loss-diverged") << losses.size();
    EXPECT_TRUE(is_sure(diagnosis));
    // From the lowest loss to the last.
    ASSERT_GE(diagnosis.evidence.size(), 4U);
    EXPECT_EQ(diagnosis.evidence.back().line, losses.size());
  }
  EXPECT_EQ(said(lines(later, "Epoch [1/8], Step [100/900], Loss: ", "\n")), "loss-diverged");
  EXPECT_EQ(said(lines(from_start, "Epoch 0: 100%|####| 120/120 [00:30<00:00, 3.98it/s, v_num=3, train_loss=", "]\n")),
            "loss-diverged");
  // What ended the run is the failure.
  EXPECT_EQ(said(lines(later) + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"),
            "oom");
  // Other rules say more about a NaN.
  EXPECT_EQ(said(lines(later) + "{'loss': nan, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.4}\n"),
            "nan-diverged");
}

TEST(Diverged, WhatALossMayDo) {
  const std::vector<std::vector<double>> healthy = {
      {2.3, 2.4, 2.6, 2.9, 2.8, 2.1, 1.7, 1.2, 0.9},                             // rises a little at the beginning
      {2.3, 2.9, 5.1, 19},                                                       // too few to say
      {2.3, 1.8, 1.2, 0.9, 0.7, 41.2, 12, 3.1, 1.2, 0.8, 0.7, 0.66},             // a spike that heals
      {2.3, 1.8, 1.2, 0.9, 0.7, 41.2, 60.1},                                     // and one at the end
      {2.3, 1.8, 0.4, 0.1, 0.02, 0.01, 0.03, 0.05, 0.3, 0.9},                    // never above where it began
      {0.002, 0.004, 0.009, 0.02, 0.03, 0.05, 0.09},                             // begins near 0
      {0.8, 0.6, 0.5, 0.4, 0.9, 1.4, 1.9, 2.2, 2.3, 2.1, 2.2, 2.0},              // harder samples
      {2.3, 4.5, 6.6, 8.9, 11, 13, 15, 17.4, 19.5, 21.8, 23.9, 26, 28, 30, 45},  // added up
      {-2.3, -2.9, -5.1, -19, -340, 2, 40, 900, 40000},                          // a likelihood
      {10, 22, 31, 44, 52, 66, 80, 10, 21, 33, 44, 52, 64, 81, 9, 20, 33, 41, 53, 220}};
  for (const auto& losses : healthy) EXPECT_EQ(said(lines(losses) + kRuntime), "no failure") << losses[0];
  const std::vector<double> rising = {0.9, 0.8, 0.7, 1.4, 3.1, 9.8, 40, 200};
  // Overfitting, two networks that are trained against each other, rewards.
  std::string overfit;
  for (std::size_t i = 0; i < rising.size(); ++i)
    overfit += lines({1.0 / static_cast<double>(i + 1)}) + "{'eval_loss': " + std::to_string(rising[i]) +
               ", 'eval_runtime': 12.1, 'epoch': 0.4}\n";
  EXPECT_EQ(said(overfit), "no failure");
  for (const char* name : {"val_loss: ", "g_loss: ", "valid | loss ", "critic loss: ", "running_loss: "})
    EXPECT_EQ(said(lines(rising, name, "\n") + kRuntime), "no failure") << name;
  EXPECT_EQ(said(lines(rising, "{'loss': ", ", 'reward': 0.5, 'epoch': 0.4}\n") + kRuntime), "no failure");
  // A second run in the same log begins as high as it should.
  const std::string second = lines({0.5, 0.4, 0.3, 0.2, 0.1}) + kRuntime + lines({7.3, 8.0, 8.5, 9.1, 9.4});
  EXPECT_EQ(said(second), "no failure");
}

}  // namespace
}  // namespace plimsoll::doctor
