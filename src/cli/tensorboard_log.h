// TensorBoardLog: what a run tells, as TensorBoard shows it, under the tags that the `transformers` Trainer uses
// ("train/loss", "eval/f1") and some of our own.
//
//   TensorBoardLog log("run/tensorboard", std::nullopt);
//   log.add_text("plan", table);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "formats/event_file.h"
#include "train/observer.h"

namespace plimsoll {

class TensorBoardLog : public TrainObserver {
 public:
  // As EventFile has them.
  TensorBoardLog(const std::filesystem::path& directory, std::optional<std::int64_t> resumed_at)
      : file_(directory, resumed_at) {}

  // Shown in a fixed-width font, as a terminal shows it.
  void add_text(std::string_view tag, const std::string& text);

  // Writes those updates that the run's options ask to log. Allocates nothing.
  void on_step(const StepReport& report) override;
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override;

  EventFile& file() { return file_; }

 private:
  EventFile file_;
};

}  // namespace plimsoll
