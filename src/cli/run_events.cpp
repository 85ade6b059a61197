#include "cli/run_events.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/command.h"

namespace plimsoll {
namespace {

// A number as JSON, which has neither NaN nor infinities: null.
struct JsonNumber {
  std::array<char, 32> text{};
  explicit JsonNumber(double value) {
    std::isfinite(value) ? fmt::format_to_n(text.data(), text.size() - 1, "{:.9g}", value)
                         : fmt::format_to_n(text.data(), text.size() - 1, "null");
  }
  const char* c_str() const { return text.data(); }
};

}  // namespace

void print_event(std::string_view event, const nlohmann::json& object) {
  nlohmann::ordered_json line = {{"event", event}};
  for (const auto& [key, value] : object.items()) line[key] = value;
  print_line(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

RunEvents::RunEvents(std::int64_t logging_steps) : logging_steps_(logging_steps) {}

void RunEvents::on_step(const StepReport& r) {
  step_ = r.step;
  const bool logs = r.step == r.total_steps || (logging_steps_ > 0 && r.step % logging_steps_ == 0);
  if (!logs) return;
  std::array<char, 640> line;
  const auto out = fmt::format_to_n(
      line.data(), line.size(),
      "{{\"event\":\"step\",\"step\":{},\"total_steps\":{},\"epoch\":{},\"loss\":{},\"learning_rate\":{},"
      "\"grad_norm\":{},\"pages_per_second\":{},\"data_wait\":{},\"seconds_left\":{},\"resident_bytes\":{},"
      "\"skipped_updates\":{}}}\n",
      r.step, r.total_steps, JsonNumber(r.epoch).c_str(), JsonNumber(r.mean_loss).c_str(),
      JsonNumber(r.learning_rate).c_str(), JsonNumber(r.gradient_norm).c_str(), JsonNumber(r.pages_per_second).c_str(),
      JsonNumber(r.data_wait).c_str(), JsonNumber(r.seconds_left).c_str(), r.resident_bytes, r.skipped_updates);
  // A reader that went away does not end the run: the last event reports it.
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), std::min(out.size, line.size()));
}

void RunEvents::on_evaluation(const StepReport& report, const Evaluation& evaluation) {
  nlohmann::json scores = to_json(evaluation);
  scores["step"] = report.step;
  scores["epoch"] = report.epoch;
  print_event("evaluation", scores);
}

void RunEvents::on_checkpoint(const std::filesystem::path& path) {
  print_event("checkpoint", {{"step", step_}, {"path", path.string()}});
}

}  // namespace plimsoll
