// The events of a run: one JSON object a line, each with an "event" (plan, step, evaluation, checkpoint, warning,
// finding, end, error). docs/json.md lists their keys. `train --json` prints them on standard output, --events FILE
// writes them to a file.
//
//   RunEvents events(true, "run/events.jsonl");
//   events.open(-1);
//   events.write("plan", plan);
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "data/findings.h"
#include "train/metrics_log.h"
#include "train/trainer.h"

namespace plimsoll {

// Step, evaluation and checkpoint events come as the trainer tells of them; the log's warnings come too, while the
// object lives, beside what else is done with them.
class RunEvents : public TrainObserver {
 public:
  // `file`: empty for none. It is not touched yet: what is said meanwhile waits.
  RunEvents(bool standard_output, std::filesystem::path file);
  ~RunEvents() override;

  // Opens the file, once: with the lines that it has of steps up to `keep_up_to` and of no step, or empty, if that is
  // below 0. Throws EnvironmentError.
  void open(std::int64_t keep_up_to);

  void write(std::string_view event, const nlohmann::json& object);
  // Writes an event for each kind, the first time; a run that falls back to another precision has the same data.
  void write_findings(const Findings& findings);
  // To the file alone: standard output gets it from where all errors are reported. Of a run that fails before its file
  // is open, the file is left alone if it is there: it is another run's.
  void write_error(ExitCode exit_code, const Problem& problem);

  // Writes those updates that the run's options ask to log. Allocates nothing.
  void on_step(const StepReport& report) override;
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override;
  void on_checkpoint(const std::filesystem::path& path) override;

 private:
  bool wanted() const { return standard_output_ || !path_.empty(); }
  void write_line(const std::string& line);

  bool standard_output_;
  std::filesystem::path path_;
  std::optional<JsonLinesLog> file_;
  std::vector<std::string> waiting_;  // lines for the file, until it is open
  std::int64_t step_ = 0;
  bool findings_written_ = false;
  LogSink old_sink_;
};

}  // namespace plimsoll
