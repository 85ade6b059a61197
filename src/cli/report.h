// How plans, progress and results look on a terminal.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "fit/fit.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace plimsoll {

// Returns the itemised plan as a table.
std::string plan_table(const RunPlan& plan);
// Says how many rows of the word embedding are in memory, if not all are; otherwise it is empty.
std::string word_rows_line(const PlanSummary& plan);
// Returns "  20 updates take about 1 s", evaluations not counted.
std::string duration_line(const PlanSummary& plan, std::int64_t updates);
// Returns what the ranks of a plan need, the smallest and the largest.
std::string shares_line(const PlanSummary& plan, std::span<const std::size_t> peaks);
// Returns what messages call an item of the data: "page", or "text" for a language model.
std::string_view page_noun(const Task& task);
// Returns precision, recall and F1 per label and over all, as a table.
std::string evaluation_table(const Evaluation& evaluation, const Task& task);
// Returns which labels are confused, in a row for each label of the data. It is empty if the task has no such counts,
// or too many labels to show.
std::string confusion_table(const Scores& scores);
// Returns "predicted peak 1.21 GiB, measured 1.19 GiB (-1.4 %), budget 1.50 GiB"
std::string peak_line(const PlanSummary& plan, std::size_t measured_bytes);

// Returns "26.4 pages/s", or for slow steps "0.0412 pages/s".
std::string rate_text(double pages_per_second);

// Logs the pages that could not be read, as warnings, if there are any.
void log_skipped_pages(const std::vector<SkippedPage>& pages);

// The progress bar: one line that is redrawn on a terminal; elsewhere a line now and then. Writes to standard error.
class ProgressBar : public TrainObserver {
 public:
  explicit ProgressBar(bool quiet);
  ~ProgressBar() override;

  void on_step(const StepReport& report) override;
  void on_evaluation(const StepReport& report, const Evaluation& evaluation) override;
  void on_checkpoint(const std::filesystem::path& path) override;
  // Clears the bar's line, so that something else can be printed.
  void clear();

 private:
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace plimsoll
