#include "cli/tensorboard_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

namespace plimsoll {

void TensorBoardLog::on_begin() {
  file_.emplace(directory_, resumed_at_);
  for (const auto& [tag, text] : texts_) file_->add_text(0, tag, fmt::format("```\n{}\n```", text));
}

void TensorBoardLog::on_step(const StepReport& r) {
  if (!r.logs) return;
  const std::array<EventFile::Scalar, 8> scalars = {
      {{"train/loss", r.mean_loss},
       {"train/grad_norm", r.gradient_norm},
       {"train/learning_rate", r.learning_rate},
       {"train/epoch", r.epoch},
       {"train/pages_per_second", r.pages_per_second},
       {"train/data_wait", r.data_wait},
       {"train/skipped_updates", static_cast<double>(r.skipped_updates)},
       {"memory/resident_mib", static_cast<double>(r.resident_bytes) / static_cast<double>(kMiB)}}};
  add_scalars(r.step, scalars);
}

// A full disk costs the run its charts, not its model.
void TensorBoardLog::add_scalars(std::int64_t step, std::span<const EventFile::Scalar> scalars) {
  if (has_failed_) return;
  try {
    file_->add_scalars(step, scalars);
  } catch (const EnvironmentError& error) {
    has_failed_ = true;
    log_warning(fmt::format("no more is written to {}: {} ({}); the run goes on", file_->path().string(),
                            error.problem().what, error.problem().found));
  }
}

void TensorBoardLog::on_evaluation(const StepReport& report, const Evaluation& evaluation) {
  std::vector<std::pair<std::string, double>> values;
  const auto add = [&](const std::string& name, double value) {
    values.emplace_back(("eval/" + name).substr(0, EventFile::kLongestTag), value);
  };
  if (evaluation.loss) add("loss", *evaluation.loss);
  for (const Scores::Metric& metric : evaluation.scores.metrics) add(metric.name, metric.value);
  for (const Scores::Label& label : evaluation.scores.labels) add("f1/" + label.name, label.f1);
  if (evaluation.scores.calibration_error) add("calibration_error", *evaluation.scores.calibration_error);
  add("runtime", evaluation.seconds);
  for (std::span rest(values); !rest.empty();) {
    std::array<EventFile::Scalar, EventFile::kMostScalars> scalars;
    const std::size_t count = std::min(rest.size(), scalars.size());
    for (std::size_t i = 0; i < count; ++i) scalars[i] = {rest[i].first, rest[i].second};
    add_scalars(report.step, std::span(scalars).first(count));
    rest = rest.subspan(count);
  }
}

}  // namespace plimsoll
