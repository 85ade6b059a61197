#include "cli/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/counted.h"
#include "cli/sweep_chart.h"
#include "fit/calibration.h"
#include "request/plan_json.h"

namespace plimsoll {
namespace {

constexpr std::size_t kTerminalColumns = 80;
constexpr std::size_t kMostGroups = 12;

// The end of a name says more than its beginning.
std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() + 3 - width);
}

// Breaks a sentence into lines that begin with `indent` spaces.
std::string wrapped_explanation(const std::string& text, std::size_t indent) {
  std::string result(indent, ' ');
  std::size_t column = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > kTerminalColumns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += text.substr(begin, length);
    column += length;
    begin = end + 1;
  }
  return result + "\n";
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string seconds_text(double seconds) {
  if (seconds < 0.01) return fmt::format("{:.2g} ms", 1000 * seconds);
  if (seconds < 1) return fmt::format("{:.0f} ms", 1000 * seconds);
  return fmt::format("{:.3g} s", seconds);
}

std::string item_row(const std::string& name, std::size_t bytes, const std::string& share) {
  return fmt::format("  {:<41}{:>17}{:>11} {:>8}\n", shortened(name, 41), grouped_digits(bytes), format_bytes(bytes),
                     share);
}

std::string items_text(const PlanSummary& run) {
  std::string text = fmt::format("{:<43}{:>17}{:>11} {:>8}\n", "memory", "bytes", "", "share");
  const auto whole = static_cast<double>(std::max<std::size_t>(run.predicted_peak_bytes, 1));
  for (const MemoryItem& item : run.items) {
    if (item.bytes > 0) text += item_row(item.name, item.bytes, percent(static_cast<double>(item.bytes) / whole));
  }
  text += "  " + std::string(kTerminalColumns - 2, '-') + "\n";
  text += item_row(run.on_device ? "predicted peak on the GPU" : "predicted peak of the process",
                   run.predicted_peak_bytes, "100.0 %");
  if (run.budget_bytes > 0) {
    text += item_row("budget", run.budget_bytes, percent(static_cast<double>(run.budget_bytes) / whole));
  }
  return text;
}

std::string peak_text(const Explanation& e) {
  std::string text = fmt::format("\nthe peak within a step (program \"{}\")\n", program_kind_name(e.program));
  text += fmt::format("  node {} of {}, {}: {}\n", e.peak_position + 1, e.nodes, e.peak_phase, e.peak_op);
  text += fmt::format("  {}\n", shortened(e.peak_node, kTerminalColumns - 2));
  text += fmt::format("  alive at the peak: {} {} ({}), the largest first\n", grouped_digits(e.alive_bytes),
                      noun_for(e.alive_bytes, "byte"), format_bytes(e.alive_bytes));
  std::size_t rest = 0, rest_count = 0;
  for (std::size_t i = 0; i < e.alive.size(); ++i) {
    const AliveGroup& group = e.alive[i];
    if (i >= kMostGroups) {
      rest += group.bytes;
      rest_count += group.count;
      continue;
    }
    text += fmt::format("  {:<34} {:>6} {:<10}{:>16}{:>10}\n", shortened(group.name, 34),
                        group.count > 1 ? fmt::format("{} x", group.count) : "", group.kind,
                        grouped_digits(group.bytes), format_bytes(group.bytes));
  }
  if (rest > 0) {
    text += fmt::format("  {:<34} {:>6} {:<10}{:>16}{:>10}\n", "all others", fmt::format("{} x", rest_count), "",
                        grouped_digits(rest), format_bytes(rest));
  }
  return text;
}

std::string packing_text(const Explanation& e) {
  const std::size_t over = e.transient_bytes - std::min(e.transient_bytes, e.alive_bytes);
  const std::string verdict = over == 0       ? "exactly the bytes alive at the peak"
                              : e.is_smallest ? "proven: no packing of these buffers is smaller"
                                              : "a smaller packing may exist; none was found";
  return fmt::format("\npacking\n  {} {} in {} {}, {} over the lower bound:\n  {}\n", grouped_digits(e.buffers),
                     noun_for(e.buffers, "buffer"), grouped_digits(e.transient_bytes),
                     noun_for(e.transient_bytes, "byte"), grouped_digits(over), verdict);
}

std::string time_text(const FitRequest& request, const PlanSummary& run, const Explanation& e,
                      const std::string& speed) {
  const auto& speeds = request.speeds.seconds_per_unit;
  const bool measured =
      speeds != typical_speeds().seconds_per_unit && speeds != typical_gpu_speeds().seconds_per_unit;
  std::string text = fmt::format("\ntime, predicted from {}\n  an update of {}: {}, {:.3g} pages/s\n",
                                 !speed.empty() ? speed
                                 : measured     ? "this machine's measured speeds"
                                                : "typical speeds",
                                 counted(request.train_batch_size, "page"), seconds_text(run.seconds_per_update),
                                 pages_per_second(run, request.train_batch_size));
  const double whole = std::max(run.seconds_per_update, 1e-12);
  text += fmt::format("  forward {}, backward {}, update {}\n", percent(e.phase_seconds[0] / whole),
                      percent(e.phase_seconds[1] / whole), percent(e.phase_seconds[2] / whole));
  return text;
}

std::string notes_text(const PlanSummary& run, const Explanation& e) {
  std::string text = "\nlevers\n";
  for (const LeverNote& note : e.levers) {
    text += fmt::format("  {:<13}{}\n", note.lever, note.choice) + wrapped_explanation(note.why, 15);
    if (note.alternative.empty()) continue;
    const auto bytes = static_cast<std::size_t>(std::abs(note.freed_bytes));
    const double share = note.extra_seconds / std::max(run.seconds_per_update - note.extra_seconds, 1e-12);
    text += wrapped_explanation(fmt::format("against {}: {} {}, {} % {}", note.alternative, format_bytes(bytes),
                                note.freed_bytes >= 0 ? "less" : "more", std::lround(100 * std::abs(share)),
                                share >= 0 ? "slower" : "faster"),
                    15);
  }
  return text;
}

std::string neighbour_row(const char* name, const FitRequest& request, const PlanSummary& run,
                          const PlanSummary& other) {
  const double change = other.seconds_per_update / run.seconds_per_update - 1;
  return fmt::format("  {:<13}{}: {:.3g} pages/s, {:.0f} % {}\n", name, format_bytes(other.budget_bytes),
                     pages_per_second(other, request.train_batch_size), 100 * std::abs(change),
                     change > 0 ? "slower" : "faster") +
         wrapped_explanation(levers_text(other), 15);
}

std::string neighbours_text(const FitRequest& request, const PlanSummary& run, const Explanation& e) {
  std::string text = "\nother budgets\n";
  if (e.cheaper) {
    text += neighbour_row("cheaper", request, run, *e.cheaper);
  } else {
    text += "  cheaper      none: this is the smallest plan with these options\n";
  }
  if (e.larger) {
    text += neighbour_row("larger", request, run, *e.larger);
  } else {
    text += "  larger       none: more memory would not make it faster\n";
  }
  return text + "  (plimsoll plan --sweep shows more)\n";
}

nlohmann::json neighbour_json(const std::optional<PlanSummary>& plan, std::int64_t train_batch_size) {
  if (!plan) return nullptr;
  nlohmann::json json = plan_json(*plan);
  json["pages_per_second"] = pages_per_second(*plan, train_batch_size);
  return json;
}

}  // namespace

std::string grouped_digits(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string explain_text(const FitRequest& request, const PlanSummary& run, const Explanation& explanation,
                         const std::string& speed) {
  std::string text = items_text(run) + peak_text(explanation) + packing_text(explanation);
  if (request.trains) {
    text += time_text(request, run, explanation, speed) + notes_text(run, explanation) +
            neighbours_text(request, run, explanation);
  }
  text.pop_back();  // the last line feed
  return text;
}

nlohmann::json explain_json(const FitRequest& request, const Explanation& e) {
  nlohmann::json alive = nlohmann::json::array(), levers = nlohmann::json::array();
  for (const AliveGroup& group : e.alive) {
    alive.push_back({{"name", group.name}, {"kind", group.kind}, {"count", group.count}, {"bytes", group.bytes}});
  }
  for (const LeverNote& note : e.levers) {
    nlohmann::json lever = {{"lever", note.lever}, {"choice", note.choice}, {"why", note.why}};
    if (!note.alternative.empty()) {
      lever["against"] = note.alternative;
      lever["freed_bytes"] = note.freed_bytes;
      lever["extra_seconds_per_update"] = note.extra_seconds;
    }
    levers.push_back(std::move(lever));
  }
  return {{"peak",
           {{"program", program_kind_name(e.program)},
            {"node", e.peak_node},
            {"op", e.peak_op},
            {"phase", e.peak_phase},
            {"position", e.peak_position},
            {"nodes", e.nodes},
            {"alive_bytes", e.alive_bytes},
            {"alive", std::move(alive)}}},
          {"packing",
           {{"buffers", e.buffers},
            {"bytes", e.transient_bytes},
            {"lower_bound_bytes", e.alive_bytes},
            {"is_smallest", e.is_smallest}}},
          {"seconds_per_update",
           {{"forward", e.phase_seconds[0]}, {"backward", e.phase_seconds[1]}, {"update", e.phase_seconds[2]}}},
          {"levers", std::move(levers)},
          {"next_cheaper_budget", neighbour_json(e.cheaper, request.train_batch_size)},
          {"next_larger_budget", neighbour_json(e.larger, request.train_batch_size)}};
}

}  // namespace plimsoll
