#include "cli/run_events.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

std::string line_of(std::string_view event, const nlohmann::json& object) {
  nlohmann::ordered_json line = {{"event", event}};
  for (const auto& [key, value] : object.items()) line[key] = value;
  return json_text(line);
}

}  // namespace

RunEvents::RunEvents(bool standard_output, std::filesystem::path file)
    : standard_output_(standard_output), path_(std::move(file)) {
  if (!path_.empty() && is_special_file(path_)) {
    throw UsageError({.what = "not a regular file",
                      .where = "--events",
                      .found = path_.string(),
                      .allowed = "a file, or - for standard output",
                      .remedy = "pass --events -, and send standard output there"});
  }
  listens_ = standard_output_ || !path_.empty();
  if (!listens_) return;
  old_sink_ = set_log_sink([this](LogLevel level, std::string_view message) {
    if (old_sink_) old_sink_(level, message);
    if (level == LogLevel::kWarning) write("warning", {{"message", message}});
  });
}

RunEvents::~RunEvents() {
  if (listens_) set_log_sink(old_sink_);
}

void RunEvents::open(std::int64_t keep_up_to) {
  const std::scoped_lock lock(mutex_);
  if (path_.empty() || file_) return;
  file_.emplace(path_, keep_up_to);
  for (const std::string& line : std::exchange(waiting_, {})) {
    if (file_) write_to_file(line);
  }
}

void RunEvents::write_line(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  if (file_) {
    write_to_file(line);
  } else if (!path_.empty()) {
    waiting_.emplace_back(line);
  }
}

void RunEvents::write_to_file(std::string_view line) {
  try {
    file_->write(line);
  } catch (const EnvironmentError& error) {
    file_.reset();
    const std::filesystem::path path = std::exchange(path_, {});
    if (!old_sink_) return;
    // A warning may be what could not be written, so this one does not pass through here.
    old_sink_(LogLevel::kWarning, fmt::format("no more events are written to {}: {} ({}); the run goes on",
                                              path.string(), error.problem().what, error.problem().found));
  }
}

void RunEvents::write(std::string_view event, const nlohmann::json& object) {
  if (!listens_) return;
  const std::string line = line_of(event, object);
  write_line(line);
  if (!standard_output_) return;
  try {
    print_line(line);
  } catch (const EnvironmentError&) {
    // A reader that went away does not cost a run its model: the last event reports it.
    if (event != "evaluation" && event != "checkpoint" && event != "warning") throw;
  }
}

void RunEvents::write_findings(const Findings& findings) {
  if (!listens_ || std::exchange(findings_written_, true)) return;
  for (const nlohmann::json& finding : nlohmann::json::parse(findings.to_json())) write("finding", finding);
}

void RunEvents::write_error(const Error& error) {
  {
    const std::scoped_lock lock(mutex_);
    if (path_.empty() || (!file_ && std::filesystem::exists(path_))) return;
  }
  open(-1);
  write_line(line_of("error", {{"error", error_json(error)}}));
}

void RunEvents::on_step(const StepReport& r) {
  step_ = r.step;
  if (!r.logs || !listens_) return;
  std::array<char, 640> line;
  const auto out = fmt::format_to_n(
      line.data(), line.size() - 1,
      "{{\"event\":\"step\",\"step\":{},\"total_steps\":{},\"epoch\":{},\"loss\":{},\"learning_rate\":{},"
      "\"grad_norm\":{},\"pages_per_second\":{},\"data_wait\":{},\"seconds_left\":{},\"resident_bytes\":{},"
      "\"skipped_updates\":{}}}",
      r.step, r.total_steps, JsonNumber(r.epoch).c_str(), JsonNumber(r.mean_loss).c_str(),
      JsonNumber(r.learning_rate).c_str(), JsonNumber(r.gradient_norm).c_str(), JsonNumber(r.pages_per_second).c_str(),
      JsonNumber(r.data_wait).c_str(), JsonNumber(r.seconds_left).c_str(), r.resident_bytes, r.skipped_updates);
  const std::size_t size = std::min(out.size, line.size() - 1);
  {
    const std::scoped_lock lock(mutex_);
    if (file_) write_to_file({line.data(), size});
  }
  if (!standard_output_) return;
  line[size] = '\n';
  // A reader that went away does not end the run: the last event reports it.
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), size + 1);
}

void RunEvents::on_evaluation(const StepReport& report, const Evaluation& evaluation) {
  nlohmann::json scores = to_json(evaluation);
  scores["step"] = report.step;
  scores["epoch"] = report.epoch;
  write("evaluation", scores);
}

void RunEvents::on_checkpoint(const std::filesystem::path& path) {
  write("checkpoint", {{"step", step_}, {"path", path.string()}});
}

}  // namespace plimsoll
