// The facts at the top of a report, what the checks found, and the options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/bytes.h"
#include "base/counted.h"
#include "formats/json.h"
#include "report/views.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;

std::string bytes_at(const Json& object, const char* key) {
  const auto bytes = count_at(object, key);
  return bytes && *bytes > 0 ? format_bytes(*bytes) : "–";
}

std::string seconds_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e12));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string state_of(const RunFacts& run) {
  if (run.is_plan) return "planned";
  if (run.finished) return "finished";
  return "not finished";
}

std::string updates_of(const RunFacts& run) {
  const auto all = count_at(run.plan, "updates");
  const double done = !run.steps.empty() ? run.steps.back().step : 0;
  if (run.is_plan) return all ? fmt::format("{}", *all) : "–";
  return all && static_cast<double>(*all) != done ? fmt::format("{:.0f} of {}", done, *all)
                                                  : fmt::format("{:.0f}", done);
}

std::string levers_of(const RunFacts& run) {
  if (!run.plan.is_object()) return "–";
  const auto chunk = count_at(run.plan, "chunk_samples").value_or(0);
  const auto times = count_at(run.plan, "gradient_accumulation_steps").value_or(0);
  std::string text = chunk > 0 ? fmt::format("{} chunks of {}, twice", times, counted(chunk, "page"))
                               : fmt::format("{} x {}", count_at(run.plan, "micro_batch_size").value_or(0), times);
  if (const auto bytes = count_at(run.plan, "recomputed_bytes").value_or(0); bytes > 0) {
    text += fmt::format(", {} recomputed", format_bytes(bytes));
  }
  if (run.plan.contains("offload")) {
    const Json& offload = run.plan["offload"];
    const auto bytes = count_at(offload, "bytes").value_or(0) + count_at(offload, "in_place_bytes").value_or(0);
    if (bytes > 0) {
      text += fmt::format(", {} offloaded", format_bytes(bytes));
    }
  }
  return text;
}

std::string main_metric(const RunFacts& run, const std::vector<std::string>& names) {
  const Evaluation* const evaluation = final_evaluation(run);
  if (evaluation == nullptr || names.empty()) return "–";
  const auto found = std::ranges::find(evaluation->metrics, names.front(), &Metric::name);
  return found == evaluation->metrics.end() ? "–" : number_text(found->value);
}

// A fact with a value for each run.
struct Fact {
  const char* name;
  std::function<std::string(const RunFacts&)> value;
  std::function<std::string(const RunFacts&)> hint = [](const RunFacts&) { return std::string(); };
  bool strong = false;
};

Fact loss_fact() {
  return {.name = "loss",
          .value = [](const RunFacts& run) { return run.steps.empty() ? "–" : number_text(run.steps.back().loss); },
          .hint =
              [](const RunFacts& run) {
                const Evaluation* const evaluation = final_evaluation(run);
                return evaluation != nullptr && evaluation->loss ? "evaluation " + number_text(*evaluation->loss) : "";
              }};
}

Fact speed_fact() {
  return {.name = "pages per second",
          .value =
              [](const RunFacts& run) {
                const auto rate = number_at(run.summary, "pages_per_second");
                if (rate) return number_text(*rate, 3);
                return run.steps.empty() ? "–" : number_text(run.steps.back().pages_per_second, 3);
              },
          .hint =
              [](const RunFacts& run) {
                const double wait = run.steps.empty() ? StepLine::kUnknown : run.steps.back().data_wait;
                return std::isfinite(wait) ? fmt::format("{:.1f} % waiting for data", 100 * wait) : "";
              }};
}

// What the plan says about time, levers and parameters.
std::vector<Fact> plan_facts() {
  std::vector<Fact> facts;
  facts.push_back({.name = "time",
                   .value =
                       [](const RunFacts& run) {
                         const auto seconds = number_at(run.summary.is_object() ? run.summary : run.plan, "seconds");
                         return seconds ? seconds_text(*seconds) : "–";
                       },
                   .hint =
                       [](const RunFacts& run) -> std::string {
                         if (!run.summary.is_object()) return "estimated";
                         const auto steps = count_at(run.summary, "steps"), here = count_at(run.summary, "steps_here");
                         if (!steps || !here || *here >= *steps) return "measured";
                         return fmt::format("measured, of the last {}", counted(*here, "update"));
                       }});
  facts.push_back({.name = "micro-batch x number", .value = levers_of, .hint = [](const RunFacts& run) {
                     const std::string mode = text_at(run.plan, "update_mode");
                     return mode.empty() ? "" : "update " + mode;
                   }});
  facts.push_back({.name = "trained parameters",
                   .value =
                       [](const RunFacts& run) {
                         const auto count = count_at(run.plan, "trained_parameters");
                         return count ? fmt::format("{:.4g} M", static_cast<double>(*count) / 1e6) : "–";
                       },
                   .hint =
                       [](const RunFacts& run) {
                         const auto all = count_at(run.plan, "parameters").value_or(0);
                         return all > 0 ? fmt::format("of {:.4g} M, {}, {}", static_cast<double>(all) / 1e6,
                                                      text_at(run.plan, "precision"), text_at(run.plan, "optim"))
                                        : "";
                       }});
  return facts;
}

std::string option_text(const Json& value, const ViewLimits& limits) {
  if (value.is_string()) return cut_text(value.get<std::string>(), limits.texts);
  return cut_text(json_text(value), limits.texts);
}

Json finding_view(const FoundFault& fault, const ViewLimits& limits) {
  constexpr std::size_t kPlaces = 5;
  Json places = Json::array();
  for (const std::string& place : fault.places) {
    if (places.size() < kPlaces) places.push_back(cut_text(place, limits.texts));
  }
  const std::uint64_t more = fault.count > places.size() ? fault.count - places.size() : 0;
  static const std::set<std::string> kSeverities = {"error", "warning", "info"};
  return {{"severity", kSeverities.contains(fault.severity) ? fault.severity : "info"},
          {"what", cut_text(fault.what, limits.texts)},
          {"times", fault.count > 1 ? counted(fault.count, "time") : ""},
          {"places", std::move(places)},
          {"more", more > 0 ? fmt::format("and {} more", more) : ""},
          {"allowed", cut_text(fault.allowed, limits.texts)},
          {"remedy", cut_text(fault.remedy, limits.texts)}};
}

}  // namespace

Json summary_facts(const std::vector<RunFacts>& runs) {
  const std::vector<std::string> metrics = metric_names(runs);
  const bool on_device = std::ranges::any_of(
      runs, [](const RunFacts& run) { return count_at(run.plan, "host_peak_bytes").value_or(0) > 0; });
  std::vector<Fact> facts = {
      {.name = "state", .value = state_of, .hint = [](const RunFacts& run) { return "updates: " + updates_of(run); }},
      {.name = on_device ? "peak on the device" : "peak memory",
       .value =
           [](const RunFacts& run) {
             return bytes_at(run.summary.is_object() ? run.summary : run.plan,
                             run.summary.is_object() ? "measured_peak_bytes" : "predicted_peak_bytes");
           },
       .hint =
           [](const RunFacts& run) {
             const std::string predicted = "predicted " + bytes_at(run.plan, "predicted_peak_bytes");
             return run.summary.is_object() ? predicted : run.is_plan ? "predicted" : "predicted; not measured yet";
           },
       .strong = true},
      {.name = "budget", .value = [](const RunFacts& run) { return bytes_at(run.plan, "budget_bytes"); }}};
  if (!metrics.empty()) {
    facts.push_back({.name = "",
                     .value = [&metrics](const RunFacts& run) { return main_metric(run, metrics); },
                     .hint =
                         [](const RunFacts& run) {
                           const Evaluation* const evaluation = final_evaluation(run);
                           return evaluation == nullptr ? "" : "on " + counted(evaluation->pages, "page");
                         },
                     .strong = true});
  }
  if (!runs.front().is_plan) {
    facts.push_back(loss_fact());
    facts.push_back(speed_fact());
  }
  for (Fact& fact : plan_facts()) facts.push_back(std::move(fact));
  Json list = Json::array();
  for (const Fact& fact : facts) {
    Json values = Json::array();
    for (const RunFacts& run : runs) {
      const std::string hint = runs.size() > 1 ? fact.hint(run) : "";
      values.push_back(fact.value(run) + (hint.empty() ? "" : " (" + hint + ")"));
    }
    const std::string name = *fact.name == '\0' ? metrics.front() : fact.name;
    list.push_back({{"name", name},
                    {"values", std::move(values)},
                    {"hint", runs.size() == 1 ? fact.hint(runs.front()) : ""},
                    {"strong", fact.strong}});
  }
  return list;
}

Json findings_view(const std::vector<RunFacts>& runs, const ViewLimits& limits) {
  constexpr std::size_t kFindings = 60;
  const std::vector<std::string> names = run_names(runs);
  Json of_runs = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const RunFacts& run = runs[r];
    if (!run.checked) continue;
    Json findings = Json::array();
    for (const FoundFault& fault : run.findings) {
      if (findings.size() < kFindings) findings.push_back(finding_view(fault, limits));
    }
    std::string verdict;
    if (run.findings.empty()) verdict = "The checks before the first update found nothing to mention.";
    if (run.findings.size() > kFindings) {
      verdict = fmt::format("The first {} of {}.", kFindings, counted(run.findings.size(), "kind"));
    }
    of_runs.push_back(
        {{"run", names[r]}, {"key", run_key(r)}, {"verdict", verdict}, {"findings", std::move(findings)}});
  }
  if (of_runs.empty()) return {};
  return {{"runs_findings", std::move(of_runs)}};
}

Json options_view(const std::vector<RunFacts>& runs, bool differing, const ViewLimits& limits) {
  static const std::set<std::string> kElsewhere = {"output_dir", "resume_from_checkpoint", "overwrite_output_dir"};
  constexpr std::size_t kMost = 300;
  std::set<std::string> names;
  for (const RunFacts& run : runs) {
    if (!run.options.is_object()) continue;
    for (const auto& [name, value] : run.options.items()) names.insert(name);
  }
  Json rows = Json::array();
  for (const std::string& name : names) {
    Json values = Json::array();
    std::set<std::string> different;
    for (const RunFacts& run : runs) {
      const bool has = run.options.is_object() && run.options.contains(name);
      values.push_back(has ? option_text(run.options[name], limits) : "–");
      different.insert(values.back().get<std::string>());
    }
    if (differing && (different.size() < 2 || kElsewhere.contains(name))) continue;
    if (rows.size() < kMost) rows.push_back({{"name", cut_text(name, limits.texts)}, {"values", std::move(values)}});
  }
  if (rows.empty()) return {};
  return {{"rows", std::move(rows)}};
}

}  // namespace plimsoll::report
