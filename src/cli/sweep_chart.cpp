#include "cli/sweep_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/counted.h"

namespace plimsoll {

std::string levers_text(const PlanSummary& plan) {
  const std::int64_t chunk = plan.levers.chunk_samples;
  std::string text = chunk > 0 ? fmt::format("{} chunks of {}, twice", plan.accumulation_steps, counted(chunk, "page"))
                               : fmt::format("{} x {}", plan.levers.micro_batch_size, plan.accumulation_steps);
  if (plan.levers.keeps_cheap) text += ", nothing recomputed";
  if (!plan.levers.recompute.empty()) {
    text += fmt::format(", {} recomputed", format_bytes(recomputed_bytes(plan.levers)));
  }
  if (!plan.offload.empty()) {
    text += fmt::format(", {} {}", format_bytes(plan.offload.bytes() + plan.offload.in_place_bytes()),
                        plan.offload_target == OffloadTarget::kFile ? "on disk" : "on the host");
  }
  if (plan.levers.update == UpdateMode::kInBackward) text += ", in backward";
  if (plan.levers.update == UpdateMode::kTwoPasses) text += ", two passes";
  if (plan.levers.update == UpdateMode::kHeadInParts) text += ", the head in parts";
  return text;
}

double pages_per_second(const PlanSummary& plan, std::int64_t train_batch_size) {
  return static_cast<double>(train_batch_size) / plan.seconds_per_update;
}

std::string sweep_table(std::span<const PlanSummary> plans, std::int64_t train_batch_size) {
  std::string text =
      fmt::format("{:>10}{:>12}{:>10}  {}", "budget", "needed", "pages/s", "micro-batch x number, levers");
  for (const PlanSummary& plan : plans) {
    text += fmt::format("\n{:>10}{:>12}{:>10.3g}  {}", format_bytes(plan.budget_bytes),
                        format_bytes(plan.predicted_peak_bytes), pages_per_second(plan, train_batch_size),
                        levers_text(plan));
  }
  return text;
}

std::string sweep_svg(std::span<const PlanSummary> plans, std::int64_t train_batch_size) {
  constexpr double kLeft = 70, kTop = 20, kWidth = 600, kHeight = 300;
  double fastest = 0;
  for (const PlanSummary& plan : plans) fastest = std::max(fastest, pages_per_second(plan, train_batch_size));
  const auto low = static_cast<double>(plans.front().budget_bytes);
  const double range = std::max(1.0, static_cast<double>(plans.back().budget_bytes) - low);
  const auto x = [&](const PlanSummary& plan) {
    return kLeft + kWidth * (static_cast<double>(plan.budget_bytes) - low) / range;
  };
  const auto y = [&](double speed) { return kTop + kHeight * (1 - speed / fastest); };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kLeft + kWidth + 40, kTop + kHeight + 60);
  for (int i = 0; i <= 4; ++i) {
    const double speed = fastest * i / 4;
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.3g}</text>\n",
        kLeft, y(speed), kLeft + kWidth, kLeft - 8, y(speed) + 4, speed);
  }
  std::string points;
  for (const PlanSummary& plan : plans) {
    points += fmt::format("{:.1f},{:.1f} ", x(plan), y(pages_per_second(plan, train_batch_size)));
  }
  svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#1f6f8b\" stroke-width=\"2\"/>\n", points);
  for (const PlanSummary& plan : plans) {
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#1f6f8b\"><title>{}: {}</title></circle>\n",
                       x(plan), y(pages_per_second(plan, train_batch_size)), format_bytes(plan.budget_bytes),
                       levers_text(plan));
  }
  const PlanSummary& first = plans.front();
  const PlanSummary& last = plans.back();
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"{}\" "
      "text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">budget; upwards: estimated "
      "pages/s</text>\n",
      kLeft, kTop + kHeight + 20, format_bytes(first.budget_bytes), kLeft + kWidth, kTop + kHeight + 20,
      format_bytes(last.budget_bytes), kLeft + kWidth / 2, kTop + kHeight + 44);
  return svg + "</svg>\n";
}

}  // namespace plimsoll
