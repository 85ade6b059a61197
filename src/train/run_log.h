// RunLog: the lines of metrics.jsonl and order.jsonl, and the watch over memory, after each update. A line of an update
// is written without allocating.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/batch.h"
#include "train/growth_watch.h"
#include "train/metrics_log.h"
#include "train/observer.h"
#include "train/options.h"

namespace plimsoll {

class RunLog {
 public:
  // `resumed_at` is the number of updates done in a resumed run; the lines of later ones are dropped. Without it the
  // files start empty. `writes` is false for all ranks except the first; these only watch their memory.
  RunLog(const TrainOptions& options, std::optional<std::int64_t> resumed_at, const GrowthWatch::Options& growth,
         bool writes = true);

  // Writes, with log_order, the pages and windows of the update after `step` updates; for a page with several
  // questions, also which one.
  void write_order(std::int64_t step, std::span<const SampleReference> samples);
  // Watches memory, and writes the line of the updates since the last one if the report asks for it. `step_seconds`
  // were spent in updates.
  void after_update(const StepReport& report, double step_seconds);
  void write_evaluation(const StepReport& report, const Evaluation& evaluation);

 private:
  void write_metrics(const StepReport& report, const ProcessMemory& memory);

  bool scales_loss_, skips_nonfinite_;
  std::unique_ptr<JsonLinesLog> metrics_, order_;
  std::string order_line_;
  GrowthWatch growth_;
  MemoryGroups groups_;
  double growth_seconds_ = 0;  // when memory was last checked
};

}  // namespace plimsoll
