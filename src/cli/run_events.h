// The events of a run: one JSON object per line, each with an "event" (plan, step, evaluation, checkpoint, warning,
// finding, end, error). docs/json.md lists their keys. `train --json` prints them on standard output, --events FILE
// writes them to a file.
//
//   RunEvents events(true, "run/events.jsonl");
//   events.open(-1);
//   events.write("plan", plan);
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
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

// Step, evaluation and checkpoint events are written as the trainer reports them; while the object lives, the log's
// warnings also become events.
class RunEvents : public TrainObserver {
 public:
  // `file` may be empty, for none. It is not touched yet: events wait until it is open.
  RunEvents(bool standard_output, std::filesystem::path file);
  ~RunEvents() override;

  // Opens the file, once: keeps its lines without a step or with one up to `keep_up_to`, or empties it if that is below
  // 0. Throws EnvironmentError.
  void open(std::int64_t keep_up_to);

  void write(std::string_view event, const nlohmann::json& object);
  // Writes an event for each kind, the first time; a run that falls back to another precision finds the same again.
  void write_findings(const Findings& findings);
  // Writes only to the file: on standard output, errors are reported elsewhere. If a run fails before its file is open,
  // an existing file is left alone, because it is another run's.
  void write_error(const Error& error);

  // Writes those updates that the run's options ask to log. Allocates nothing.
  void on_step(const StepReport& report) override;
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override;
  void on_checkpoint(const std::filesystem::path& path) override;

 private:
  void write_line(std::string_view line);
  // Writes to the file as long as that is possible: a full disk there does not cost a run its model.
  void write_to_file(std::string_view line);

  bool standard_output_;
  bool listens_ = false;  // there is somewhere to write to; then warnings, which are events too, come here
  std::filesystem::path path_;
  std::mutex mutex_;  // of the file: threads that load pages log warnings, which are events
  std::optional<JsonLinesLog> file_;
  std::vector<std::string> waiting_;  // lines for the file, until it is open
  std::int64_t step_ = 0;
  bool findings_written_ = false;
  LogSink old_sink_;
};

}  // namespace plimsoll
