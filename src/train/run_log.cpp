#include "train/run_log.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "base/log.h"
#include "base/process.h"
#include "train/metrics_log.h"

namespace plimsoll {
namespace {

constexpr double kSecondsBetweenLooks = 1;

}  // namespace

RunLog::RunLog(const TrainOptions& options, std::optional<std::int64_t> resumed_at, const GrowthWatch::Options& growth,
               bool writes)
    : scales_loss_(options.precision == DType::kF16), skips_nonfinite_(options.skip_nonfinite), growth_(growth) {
  if (!writes) return;
  const std::int64_t keep = resumed_at.value_or(-1);
  metrics_ = std::make_unique<JsonLinesLog>(options.output_dir / "metrics.jsonl", keep);
  if (!options.log_order) return;
  order_ = std::make_unique<JsonLinesLog>(options.output_dir / "order.jsonl", keep);
  order_line_.reserve(64 + 40 * static_cast<std::size_t>(options.train_batch_size));
}

void RunLog::write_order(std::int64_t step, std::span<const SampleReference> samples) {
  if (order_ == nullptr) return;
  order_line_.clear();
  const auto out = std::back_inserter(order_line_);
  fmt::format_to(out, "{{\"step\": {}, \"update\": {}, \"examples\": [", step + 1, step);
  const char* comma = "";
  for (const SampleReference& sample : samples) {
    fmt::format_to(out, "{}[{}, {}", comma, sample.page, sample.window);
    if (sample.items > 1) fmt::format_to(out, ", {}", sample.item);
    order_line_ += ']';
    comma = ", ";
  }
  order_line_ += "]}";
  order_->write(order_line_);
}

void RunLog::after_update(const StepReport& report, double step_seconds) {
  const bool looks = step_seconds - growth_seconds_ >= kSecondsBetweenLooks;
  if (!report.logs && !looks) return;
  const ProcessMemory memory = process_memory(groups_);
  if (looks) {
    growth_seconds_ = step_seconds;
    if (const auto growth = growth_.add(report.step, step_seconds, memory)) log_warning(describe(*growth));
  }
  if (report.logs && metrics_ != nullptr) write_metrics(report, memory);
}

void RunLog::write_metrics(const StepReport& report, const ProcessMemory& memory) {
  std::array<char, 512> line;
  const auto out = fmt::format_to_n(
      line.data(), line.size(),
      "{{\"step\": {}, \"epoch\": {:.6g}, \"loss\": {}, \"learning_rate\": {:.9g}, \"grad_norm\": {}, "
      "\"pages_per_second\": {:.5g}, \"data_wait\": {:.4f}, \"resident_bytes\": {}, \"anonymous_bytes\": {}, "
      "\"file_bytes\": {}, "
      "\"machine_free_bytes\": {}",
      report.step, report.epoch, JsonNumber(report.mean_loss).c_str(), report.learning_rate,
      JsonNumber(report.gradient_norm).c_str(), report.pages_per_second, report.data_wait, report.resident_bytes,
      memory.anonymous, memory.file_backed, memory.machine_free);
  const auto rest = line.size() - out.size;
  const auto end = scales_loss_ ? fmt::format_to_n(out.out, rest, ", \"loss_scale\": {:.6g}, \"skipped_updates\": {}}}",
                                                   report.loss_scale, report.skipped_updates)
                   : skips_nonfinite_ || report.skipped_updates > 0
                       ? fmt::format_to_n(out.out, rest, ", \"skipped_updates\": {}}}", report.skipped_updates)
                       : fmt::format_to_n(out.out, rest, "}}");
  metrics_->write({line.data(), out.size + end.size});
}

void RunLog::write_evaluation(const StepReport& report, const Evaluation& evaluation) {
  if (metrics_ == nullptr) return;
  nlohmann::json line = {{"step", report.step}, {"epoch", report.epoch}};
  const nlohmann::json scores = to_json(evaluation);
  for (const auto& [key, value] : scores.items()) line["eval_" + key] = value;
  metrics_->write(line.dump());
}

}  // namespace plimsoll
