// What `train --json` prints while it goes: one JSON object a line on standard output, each with an "event" (plan,
// step, evaluation, checkpoint, end, error). docs/json.md lists their keys.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "train/trainer.h"

namespace plimsoll {

// One line: `object` with "event" before its other keys.
void print_event(std::string_view event, const nlohmann::json& object);

// Step, evaluation and checkpoint events.
class RunEvents : public TrainObserver {
 public:
  explicit RunEvents(std::int64_t logging_steps);

  // Every `logging_steps` updates and after the last one. Allocates nothing.
  void on_step(const StepReport& report) override;
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override;
  void on_checkpoint(const std::filesystem::path& path) override;

 private:
  std::int64_t logging_steps_;
  std::int64_t step_ = 0;
};

}  // namespace plimsoll
