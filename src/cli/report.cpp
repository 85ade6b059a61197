#include "cli/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/log.h"

namespace plimsoll {
namespace {

// Formats into its own buffer and writes it in one piece: nothing is allocated inside the step loop.
template <typename... Args>
void write_error(fmt::format_string<Args...> format, Args&&... args) {
  std::array<char, 512> text;
  const auto out = fmt::format_to_n(text.data(), text.size(), format, std::forward<Args>(args)...);
  const std::size_t size = std::min(out.size, text.size());
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), size);
}

// "1.21 GiB" without allocating.
struct Bytes {
  std::array<char, 16> text{};
  explicit Bytes(std::size_t bytes) {
    const double gib = static_cast<double>(bytes) / static_cast<double>(kGiB);
    const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
    if (gib >= 1) {
      fmt::format_to_n(text.data(), text.size() - 1, "{:.2f} GiB", gib);
    } else {
      fmt::format_to_n(text.data(), text.size() - 1, "{:.0f} MiB", mib);
    }
  }
  const char* c_str() const { return text.data(); }
};

// The same for rate_text.
struct Rate {
  std::array<char, 24> text{};
  explicit Rate(double pages_per_second) {
    if (pages_per_second < 1) {
      fmt::format_to_n(text.data(), text.size() - 1, "{:.3g} pages/s", pages_per_second);
    } else {
      fmt::format_to_n(text.data(), text.size() - 1, "{:.1f} pages/s", pages_per_second);
    }
  }
  const char* c_str() const { return text.data(); }
};

struct Duration {
  std::array<char, 16> text{};
  explicit Duration(double seconds) {
    const auto s = static_cast<long>(std::lround(std::max(0.0, seconds)));
    if (s >= 3600) {
      fmt::format_to_n(text.data(), text.size() - 1, "{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    } else {
      fmt::format_to_n(text.data(), text.size() - 1, "{}:{:02}", s / 60, s % 60);
    }
  }
  const char* c_str() const { return text.data(); }
};

// "  3 skipped", or nothing.
struct Skipped {
  std::array<char, 32> text{};
  explicit Skipped(std::int64_t updates) {
    if (updates > 0) fmt::format_to_n(text.data(), text.size() - 1, "  {} skipped", updates);
  }
  const char* c_str() const { return text.data(); }
};

std::string loss_text(const Evaluation& evaluation) {
  return evaluation.loss ? fmt::format("loss {:.4f}", *evaluation.loss) : "no loss";
}

std::string metrics_text(const Scores& scores) {
  std::string text;
  for (const Scores::Metric& metric : scores.metrics) text += fmt::format("{} {:.4f}  ", metric.name, metric.value);
  return text;
}

}  // namespace

std::string plan_table(const RunPlan& plan) {
  std::string text = "memory plan\n";
  for (const MemoryItem& item : plan.items) {
    if (item.bytes == 0) continue;
    text += fmt::format("  {:<46}{:>12}\n", item.name, format_bytes(item.bytes));
  }
  text += fmt::format("  {:<46}{:>12}\n", "predicted peak", format_bytes(plan.predicted_peak_bytes));
  if (plan.budget_bytes > 0) text += fmt::format("  {:<46}{:>12}\n", "budget", format_bytes(plan.budget_bytes));
  if (plan.on_device) {
    text += fmt::format("  {:<46}{:>12}\n", "on the host", format_bytes(plan.host_peak_bytes));
  }
  if (plan.levers.chunk_samples > 0) {
    text += fmt::format("  GradCache: chunks of {} at most, up to {} per update, each computed twice",
                        counted(plan.levers.chunk_samples, "page"), counted(plan.accumulation_steps, "chunk"));
  } else if (plan.accumulation_steps > 0) {
    text += fmt::format("  micro-batch of {}, {} per update", plan.levers.micro_batch_size, plan.accumulation_steps);
  } else {
    text += fmt::format("  batches of {}", plan.levers.micro_batch_size);
  }
  const PlannedProgram& program = plan.programs.front();
  text += fmt::format("; at most {} each", counted(program.capacity.text_rows, "text token"));
  if (plan.accumulation_steps == 0) return text;
  if (!plan.trained_parts.empty()) text += "\n  " + plan.trained_parts;
  if (const std::string line = word_rows_line(plan); !line.empty()) text += "\n  " + line;
  if (plan.levers.update != UpdateMode::kAfterBackward) {
    text += fmt::format("\n  parameters are updated {}", update_mode_name(plan.levers.update));
  }
  if (plan.ranks > 1) {
    constexpr std::array<const char*, 4> kKept = {"each keeps all", "each keeps its part of the optimizer's state",
                                                  "each keeps its part of gradients and optimizer state",
                                                  "each keeps its part of parameters, gradients and optimizer state"};
    text += fmt::format("\n  {} processes, ZeRO stage {}: {}; each sends up to {} per update", plan.ranks,
                        plan.levers.zero_stage, kKept.at(static_cast<std::size_t>(plan.levers.zero_stage)),
                        format_bytes(static_cast<std::size_t>(plan.exchange.sent_bytes + plan.exchange.row_bytes)));
    text += fmt::format("\n  the exchange takes about {:.2g} s per update, {:.2g} s of it while nothing is computed",
                        plan.exchange_seconds, plan.exchange_wait_seconds);
  }
  if (!plan.levers.recompute.empty()) {
    const double extra = recomputed_seconds(plan.levers) * static_cast<double>(plan.accumulation_steps) *
                         (plan.levers.update == UpdateMode::kTwoPasses ? 2 : 1);
    text += fmt::format("\n  {} of activations are recomputed in backward: about {:.0f} % longer",
                        format_bytes(recomputed_bytes(plan.levers)), 100 * extra / (plan.seconds_per_update - extra));
  }
  if (!plan.offload.empty()) {
    const std::string size = format_bytes(plan.offload.bytes());
    text += plan.offload.bytes() == 0 ? std::string("\n  offloaded: ")
            : plan.offload_target == OffloadTarget::kFile
                ? fmt::format("\n  offloaded to a file of {} in {}: ", size, plan.offload_directory.string())
                : fmt::format("\n  offloaded to {} of the host's memory: ", size);
    text += offloaded_text(plan.offload);
    text += fmt::format("\n  an update reads {} of it and writes {}: about {:.2g} s, in parallel with the computation",
                        format_bytes(static_cast<std::size_t>(plan.transfers.read_bytes)),
                        format_bytes(static_cast<std::size_t>(plan.transfers.written_bytes)), plan.transfer_seconds);
  }
  text += fmt::format("\n  an update takes about {:.2g} s\n  after a signal, saving begins within about {:.2g} s",
                      plan.seconds_per_update, plan.seconds_to_save);
  return text;
}

std::string word_rows_line(const PlanSummary& plan) {
  if (plan.word_rows == nullptr) return {};
  return fmt::format("word embeddings of {} of {}: the data has no others", plan.word_rows->size(),
                     counted(plan.vocabulary, "token"));
}

std::string duration_line(const PlanSummary& plan, std::int64_t updates) {
  const double seconds = plan.seconds_per_update * static_cast<double>(updates);
  const std::string time = seconds < 60      ? fmt::format("{:.2g} s", seconds)
                           : seconds < 86400 ? std::string(Duration(seconds).c_str())
                                             : fmt::format("{:.1f} days", seconds / 86400);
  return fmt::format("  {} about {}{}", counted(updates, "update takes", "updates take"), time,
                     seconds < 60 || seconds >= 86400 ? ""
                     : seconds < 3600                 ? " (minutes:seconds)"
                                                      : " (hours:minutes:seconds)");
}

std::string shares_line(const PlanSummary& plan, std::span<const std::size_t> peaks) {
  const auto [least, most] = std::ranges::minmax_element(peaks);
  if (*least == *most) return fmt::format("  every rank needs as much; this is the plan of rank {}", plan.rank);
  return fmt::format("  the ranks need {} to {}; this is the plan of rank {}, which owns most", format_bytes(*least),
                     format_bytes(*most), plan.rank);
}

std::string_view page_noun(const Task& task) { return task.reads_text() ? "text" : "page"; }

std::string evaluation_table(const Evaluation& evaluation, const Task& task) {
  const Scores& scores = evaluation.scores;
  std::string text;
  if (!scores.labels.empty() || scores.all) {
    std::size_t width = 16;
    for (const Scores::Label& label : scores.labels) width = std::max(width, label.name.size() + 1);
    text = fmt::format("{:<{}}{:>10}{:>10}{:>10}{:>10}\n", "label", width, "precision", "recall", "f1", "support");
    const auto row = [&](const Scores::Label& label) {
      text += fmt::format("{:<{}}{:>10.4f}{:>10.4f}{:>10.4f}{:>10}\n", label.name, width, label.precision, label.recall,
                          label.f1, label.support);
    };
    for (const Scores::Label& label : scores.labels) row(label);
    if (scores.all) row(*scores.all);
  }
  if (!scores.all) text += metrics_text(scores);
  if (scores.calibration_error) text += fmt::format("calibration error {:.4f}  ", *scores.calibration_error);
  text += fmt::format("{} over {} in {:.1f} s", loss_text(evaluation), counted(evaluation.pages, page_noun(task)),
                      evaluation.seconds);
  if (scores.missed_words > 0) {
    text += fmt::format("\n{} no prediction (cut off by --truncate, or without text) and counted as missed",
                        counted(scores.missed_words, "labelled word has", "labelled words have"));
  }
  return text;
}

std::string confusion_table(const Scores& scores) {
  const Scores::Confusion& confusion = scores.confusion;
  constexpr std::size_t kWidest = 14, kMost = 12;  // characters of a column, labels of a table
  const std::size_t size = confusion.names.size();
  if (size < 2 || size > kMost) return {};
  const auto cut = [](const std::string& name) {
    if (name.size() < kWidest) return name;
    std::size_t end = kWidest - 2;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // within a character
    return name.substr(0, end) + "…";
  };
  std::size_t width = 8;
  for (const std::string& name : confusion.names) width = std::max(width, std::min(name.size(), kWidest) + 2);
  std::string text = fmt::format("{:<{}}", "taken as", width);
  for (const std::string& name : confusion.names) text += fmt::format("{:>{}}", cut(name), width);
  for (std::size_t gold = 0; gold < size; ++gold) {
    text += fmt::format("\n{:<{}}", cut(confusion.names[gold]), width);
    for (std::size_t predicted = 0; predicted < size; ++predicted) {
      text += fmt::format("{:>{}}", confusion.counts[gold * size + predicted], width);
    }
  }
  return text;
}

std::string rate_text(double pages_per_second) { return Rate(pages_per_second).c_str(); }

std::string peak_line(const PlanSummary& plan, std::size_t measured_bytes) {
  if (plan.budget_bytes > 0 && measured_bytes > plan.budget_bytes) {
    log_warning(fmt::format("the run held {}, more than its budget of {}", format_bytes(measured_bytes),
                            format_bytes(plan.budget_bytes)));
  }
  const double predicted = static_cast<double>(plan.predicted_peak_bytes);
  const double error = (static_cast<double>(measured_bytes) - predicted) / predicted * 100;
  return fmt::format("peak memory{}: predicted {}, measured {} ({:+.1f} %), budget {}",
                     plan.on_device ? " of the GPU" : "", format_bytes(plan.predicted_peak_bytes),
                     format_bytes(measured_bytes), error, format_bytes(plan.budget_bytes));
}

void log_skipped_pages(const std::vector<SkippedPage>& pages) {
  if (pages.empty()) return;
  log_warning(
      counted(pages.size(), "page could not be read and was skipped:", "pages could not be read and were skipped:"));
  for (const SkippedPage& page : pages) log_warning("  " + describe(page));
}

ProgressBar::ProgressBar(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::on_step(const StepReport& r) {
  if (quiet_) return;
  const bool last = r.step == r.total_steps;
  const auto now = std::chrono::steady_clock::now();
  if (terminal_) {
    if (!last && now - last_drawn_ < std::chrono::milliseconds(100)) return;
    last_drawn_ = now;
    constexpr int kWidth = 20;
    const int filled = static_cast<int>(kWidth * r.step / std::max<std::int64_t>(1, r.total_steps));
    write_error(
        "\r[{:#<{}}{:.<{}}] {}/{}  loss {:.4f}  lr {:.2e}  {}  data wait {:.0f} %  {}{} of {}  {} "
        "left{}\x1b[K",
        "", filled, "", kWidth - filled, r.step, r.total_steps, r.mean_loss, r.learning_rate,
        Rate(r.pages_per_second).c_str(), 100 * r.data_wait, r.on_device ? "host memory " : "",
        Bytes(r.resident_bytes).c_str(), Bytes(r.budget_bytes).c_str(), Duration(r.seconds_left).c_str(),
        Skipped(r.skipped_updates).c_str());
    drawn_ = true;
    return;
  }
  if (!r.logs) return;
  write_error(
      "step {}/{}  epoch {:.2f}  loss {:.4f}  lr {:.2e}  {}  data wait {:.0f} %  {}memory {} of {}  {} "
      "left{}\n",
      r.step, r.total_steps, r.epoch, r.mean_loss, r.learning_rate, Rate(r.pages_per_second).c_str(), 100 * r.data_wait,
      r.on_device ? "host " : "", Bytes(r.resident_bytes).c_str(), Bytes(r.budget_bytes).c_str(),
      Duration(r.seconds_left).c_str(), Skipped(r.skipped_updates).c_str());
}

void ProgressBar::on_evaluation(const StepReport& r, const Evaluation& evaluation) {
  if (quiet_) return;
  clear();
  write_error("evaluation at step {}: {}{}\n", r.step, metrics_text(evaluation.scores), loss_text(evaluation));
}

void ProgressBar::on_checkpoint(const std::filesystem::path& path) {
  if (quiet_) return;
  clear();
  write_error("saved {}\n", path.c_str());
}

void ProgressBar::clear() {
  if (!drawn_) return;
  write_error("\r\x1b[K");
  drawn_ = false;
}

}  // namespace plimsoll
