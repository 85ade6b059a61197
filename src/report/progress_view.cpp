// What changes over a run's updates: the numbers of metrics.jsonl as charts and tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/counted.h"
#include "report/views.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;
using Column = double StepLine::*;

constexpr std::size_t kTableRows = 40;

std::string value_text(double value, const std::string& format) {
  if (!std::isfinite(value)) return "–";
  if (format == "bytes") return format_bytes(static_cast<std::size_t>(std::max(0.0, value)));
  if (format == "percent") return fmt::format("{:.1f} %", 100 * value);
  return number_text(value);
}

// Returns at most kTableRows of this many lines, evenly chosen, including the last.
std::vector<std::size_t> chosen_rows(std::size_t lines) {
  std::vector<std::size_t> rows;
  const std::size_t count = std::min(lines, kTableRows);
  for (std::size_t i = 1; i <= count; ++i) rows.push_back(lines * i / count - 1);
  return rows;
}

struct Chart {
  const char *id, *title;
  std::string caption{};
  std::string format = "plain";
  Column column = nullptr;  // nullptr: for evaluations
};

// One table of all runs: a row is a line of one run; if there are several, its first column names the run.
Json table_of(const std::vector<RunFacts>& runs, const Chart& chart) {
  const std::vector<std::string> names = run_names(runs);
  const bool several = runs.size() > 1;
  Json head = Json::array(), rows = Json::array();
  if (several) head.push_back("run");
  head.push_back("update");
  const std::vector<std::string> metrics = metric_names(runs);
  const bool of_loss = std::string_view(chart.id) == "loss";
  if (chart.column != nullptr) head.push_back(chart.title);
  if (of_loss) head.push_back("evaluation loss");
  for (const std::string& name : metrics) {
    if (chart.column == nullptr) head.push_back(name);
  }
  std::size_t lines = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const RunFacts& run = runs[r];
    const auto add = [&](double step, Json values) {
      Json row = Json::array();
      if (several) row.push_back(names[r]);
      row.push_back(fmt::format("{:.0f}", step));
      for (Json& value : values) row.push_back(std::move(value));
      rows.push_back(std::move(row));
    };
    const auto evaluation_at = [&run](double step) -> const Evaluation* {
      const auto found = std::ranges::find(run.evaluations, step, &Evaluation::step);
      return found == run.evaluations.end() ? nullptr : &*found;
    };
    if (chart.column == nullptr) {
      lines += run.evaluations.size();
      for (const std::size_t i : chosen_rows(run.evaluations.size())) {
        const Evaluation& evaluation = run.evaluations[i];
        Json values = Json::array();
        for (const std::string& name : metrics) {
          const auto found = std::ranges::find(evaluation.metrics, name, &Metric::name);
          values.push_back(found == evaluation.metrics.end() ? "–" : number_text(found->value));
        }
        add(evaluation.step, std::move(values));
      }
      continue;
    }
    lines += run.steps.size();
    std::vector<std::size_t> chosen = chosen_rows(run.steps.size());
    for (std::size_t i = 0; of_loss && i < run.steps.size(); ++i) {
      if (chosen.size() < 2 * kTableRows && evaluation_at(run.steps[i].step) != nullptr) chosen.push_back(i);
    }
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const std::size_t i : chosen) {
      const StepLine& line = run.steps[i];
      Json values = {value_text(line.*chart.column, chart.format)};
      if (of_loss) {
        const Evaluation* const evaluation = evaluation_at(line.step);
        values.push_back(evaluation != nullptr && evaluation->loss ? number_text(*evaluation->loss) : "");
      }
      add(line.step, std::move(values));
    }
  }
  std::string more;
  if (lines > rows.size()) more = fmt::format("{} of {}", rows.size(), counted(lines, "line"));
  return {{"head", std::move(head)}, {"rows", std::move(rows)}, {"more", more}};
}

Json chart_json(const std::vector<RunFacts>& runs, const Chart& chart) {
  Json json = {{"id", chart.id}, {"title", chart.title}, {"caption", chart.caption}};
  json.update(table_of(runs, chart));
  return json;
}

bool has_steps(const std::vector<RunFacts>& runs) {
  return std::ranges::any_of(runs, [](const RunFacts& run) { return !run.steps.empty(); });
}
bool is_on_device(const RunFacts& run) { return count_at(run.plan, "host_peak_bytes").value_or(0) > 0; }

std::string thinned_text(const std::vector<RunFacts>& runs) {
  std::uint64_t per = 1;
  for (const RunFacts& run : runs) per = std::max(per, run.lines_per_step);
  return per > 1 ? fmt::format("Each point is the mean of {}.", counted(per, "line")) : "";
}

// Return the predicted peak and the budget of the memory that `resident_bytes` measures.
std::uint64_t predicted_resident(const RunFacts& run) {
  return count_at(run.plan, is_on_device(run) ? "host_peak_bytes" : "predicted_peak_bytes").value_or(0);
}
std::uint64_t resident_budget(const RunFacts& run) {
  return count_at(run.plan, is_on_device(run) ? "host_budget_bytes" : "budget_bytes").value_or(0);
}

double five_digits(double value) { return value == 0 ? 0 : std::stod(fmt::format("{:.5g}", value)); }

Json column_of(const RunFacts& run, Column column) {
  Json list = Json::array();
  for (const StepLine& line : run.steps) {
    const double value = line.*column;
    list.push_back(std::isfinite(value) ? Json(five_digits(value)) : Json());
  }
  return list;
}

}  // namespace

const Evaluation* final_evaluation(const RunFacts& run) {
  if (run.saved) return &*run.saved;
  return run.evaluations.empty() ? nullptr : &run.evaluations.back();
}

std::vector<std::string> metric_names(const std::vector<RunFacts>& runs) {
  std::vector<std::string> names;
  for (const RunFacts& run : runs) {
    const Evaluation* const evaluation = final_evaluation(run);
    if (evaluation == nullptr) continue;
    for (const Metric& metric : evaluation->metrics) {
      if (std::ranges::find(names, metric.name) == names.end()) names.push_back(metric.name);
    }
  }
  // The main metric of each task that has one of these comes first; the others are in alphabetical order.
  for (const char* main : {"accuracy", "f1"}) {
    const auto found = std::ranges::find(names, main);
    if (found != names.end()) std::rotate(names.begin(), found, found + 1);
  }
  return names;
}

Json memory_charts(const std::vector<RunFacts>& runs) {
  if (!has_steps(runs)) return Json::array();
  const std::string thinned = thinned_text(runs);
  const bool on_device = std::ranges::any_of(runs, is_on_device);
  const std::string caption = on_device ? "Resident memory of the host, in addition to the device's."
                                        : "Resident memory as measured during the run.";
  return {chart_json(runs, {.id = "memory",
                            .title = "Planned and measured",
                            .caption = caption + (thinned.empty() ? "" : " " + thinned),
                            .format = "bytes",
                            .column = &StepLine::resident_bytes})};
}

Json chart_views(const std::vector<RunFacts>& runs) {
  Json sections = Json::array();
  const bool evaluated = std::ranges::any_of(runs, [](const RunFacts& run) { return !run.evaluations.empty(); });
  if (!has_steps(runs) && !evaluated) return sections;
  Json learning = Json::array();
  if (has_steps(runs)) {
    learning.push_back(
        chart_json(runs, {.id = "loss", .title = "Loss", .caption = thinned_text(runs), .column = &StepLine::loss}));
  }
  if (evaluated) {
    const std::vector<std::string> names = metric_names(runs);
    const std::string caption = runs.size() > 1 && !names.empty()
                                    ? fmt::format("{} on the evaluation data.", names.front())
                                    : "On the evaluation data.";
    learning.push_back(chart_json(runs, {.id = "metrics", .title = "Scores", .caption = caption}));
  }
  if (has_steps(runs)) {
    learning.push_back(chart_json(runs, {.id = "rate", .title = "Learning rate", .column = &StepLine::learning_rate}));
    learning.push_back(chart_json(
        runs,
        {.id = "norm", .title = "Gradient norm", .caption = "Before clipping.", .column = &StepLine::gradient_norm}));
  }
  sections.push_back({{"id", "learning"}, {"title", "Learning"}, {"text", ""}, {"charts", std::move(learning)}});
  if (has_steps(runs)) {
    sections.push_back(
        {{"id", "speed"},
         {"title", "Speed"},
         {"text", ""},
         {"charts",
          {chart_json(runs, {.id = "speed",
                             .title = "Pages per second",
                             .caption = "Every window of a long page counts.",
                             .column = &StepLine::pages_per_second}),
           chart_json(runs, {.id = "wait",
                             .title = "Waiting for data",
                             .caption = "Share of the updates' time in which they waited for the loader.",
                             .format = "percent",
                             .column = &StepLine::data_wait})}}});
  }
  return sections;
}

Json progress_facts(const RunFacts& run) {
  Json steps;
  if (!run.steps.empty()) {
    steps = {{"step", column_of(run, &StepLine::step)},
             {"loss", column_of(run, &StepLine::loss)},
             {"rate", column_of(run, &StepLine::learning_rate)},
             {"norm", column_of(run, &StepLine::gradient_norm)},
             {"speed", column_of(run, &StepLine::pages_per_second)},
             {"wait", column_of(run, &StepLine::data_wait)},
             {"resident", column_of(run, &StepLine::resident_bytes)}};
  }
  Json evaluations = Json::array();
  for (const Evaluation& evaluation : run.evaluations) {
    Json metrics = Json::object();
    for (const Metric& metric : evaluation.metrics) metrics[metric.name] = five_digits(metric.value);
    evaluations.push_back({{"step", evaluation.step},
                           {"loss", evaluation.loss ? Json(five_digits(*evaluation.loss)) : Json()},
                           {"metrics", std::move(metrics)}});
  }
  Json limits = Json::array();
  if (const std::uint64_t predicted = predicted_resident(run); predicted > 0) {
    limits.push_back({{"name", "predicted peak " + format_bytes(predicted)}, {"at", predicted}});
  }
  // A budget far above the run's memory would squeeze its line to the bottom.
  const std::uint64_t budget = resident_budget(run);
  if (budget > 0 && budget < 3 * predicted_resident(run)) {
    limits.push_back({{"name", "budget " + format_bytes(budget)}, {"at", budget}});
  }
  return {{"steps", std::move(steps)},
          {"evaluations", std::move(evaluations)},
          {"limits", std::move(limits)},
          {"updates", count_at(run.plan, "updates").value_or(0)}};
}

}  // namespace plimsoll::report
