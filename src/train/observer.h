// What a run reports while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "train/evaluation.h"

namespace plimsoll {

struct StepReport {
  std::int64_t step = 0, total_steps = 0;  // updates done
  bool logs = false;                       // the run's options ask for a log line
  double epoch = 0;
  double loss = 0;           // mean over labelled tokens of the update
  double mean_loss = 0;      // of the updates since the last line of metrics.jsonl, for the next line
  double learning_rate = 0;  // that the update used
  double gradient_norm = 0;  // before clipping
  double pages_per_second = 0;
  double data_wait = 0;  // share of the updates' time in which they waited for the loader
  double seconds_left = 0;
  std::size_t resident_bytes = 0;
  std::size_t budget_bytes = 0;  // of resident memory
  bool on_device = false;        // a device that has memory besides the resident memory
  double loss_scale = 1;         // of --fp16
  std::int64_t skipped_updates = 0;
};

// Called on the training thread; the step report must not allocate.
class TrainObserver {
 public:
  TrainObserver() = default;
  TrainObserver(const TrainObserver&) = delete;
  TrainObserver& operator=(const TrainObserver&) = delete;
  virtual ~TrainObserver() = default;
  // Called when nothing can refuse the run any more: its weights are read, and the disk has room. Until then, nothing
  // of an earlier run in its directory has been changed.
  virtual void on_begin() {}
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const StepReport&, const Evaluation&) {}
  virtual void on_checkpoint(const std::filesystem::path&) {}
};

// Passes reports to several observers, in order.
class Observers final : public TrainObserver {
 public:
  explicit Observers(std::vector<TrainObserver*> observers) : observers_(std::move(observers)) {}
  void add(TrainObserver* observer) { observers_.push_back(observer); }
  void on_begin() override {
    for (TrainObserver* each : observers_) each->on_begin();
  }
  void on_step(const StepReport& report) override {
    for (TrainObserver* each : observers_) each->on_step(report);
  }
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override {
    for (TrainObserver* each : observers_) each->on_evaluation(report, evaluation);
  }
  void on_checkpoint(const std::filesystem::path& path) override {
    for (TrainObserver* each : observers_) each->on_checkpoint(path);
  }

 private:
  std::vector<TrainObserver*> observers_;  // not owned
};

}  // namespace plimsoll
