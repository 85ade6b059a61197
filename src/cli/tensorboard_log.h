// TensorBoardLog: writes what a run reports for TensorBoard, under the tags that the `transformers` Trainer uses
// ("train/loss", "eval/f1") and some of our own.
//
//   TensorBoardLog log("run/tensorboard", std::nullopt);
//   log.add_text("plan", table);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/event_file.h"
#include "train/observer.h"

namespace plimsoll {

class TensorBoardLog : public TrainObserver {
 public:
  // The arguments are EventFile's. Nothing is written before the run begins.
  TensorBoardLog(std::filesystem::path directory, std::optional<std::int64_t> resumed_at)
      : directory_(std::move(directory)), resumed_at_(resumed_at) {}

  // Adds a text in a fixed-width font, as on a terminal, at the beginning of the run.
  void add_text(std::string tag, std::string text) { texts_.emplace_back(std::move(tag), std::move(text)); }

  void on_begin() override;
  // Writes those updates that the run's options ask to log. Allocates nothing.
  void on_step(const StepReport& report) override;
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override;

  // Returns nullptr if the file could not be written to. Call it only after the run has begun.
  EventFile* file() { return has_failed_ ? nullptr : &*file_; }

 private:
  void add_scalars(std::int64_t step, std::span<const EventFile::Scalar> scalars);

  std::filesystem::path directory_;
  std::optional<std::int64_t> resumed_at_;
  std::vector<std::pair<std::string, std::string>> texts_;
  std::optional<EventFile> file_;
  bool has_failed_ = false;
};

}  // namespace plimsoll
