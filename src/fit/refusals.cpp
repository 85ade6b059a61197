#include "fit/refusals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/remedies.h"

namespace plimsoll {
namespace {

std::string listed(std::vector<MemoryItem> items, std::size_t variation) {
  items.push_back({.name = "besides them, what varies between runs", .bytes = variation});
  std::string text;
  for (const MemoryItem& item : items) {
    if (item.bytes > 0) text += fmt::format("\n             {:<42}{:>10}", item.name, format_bytes(item.bytes));
  }
  return text;
}

}  // namespace

BudgetError host_too_small(const FitRequest& request, const PlanSummary& least) {
  const std::size_t mebibytes = (least.host_peak_bytes + variation_bytes(request)) / kMiB + 1;
  return BudgetError(
      {.what = "the run's host memory does not fit its budget",
       .where = "--host-budget",
       .found = fmt::format("{}; the run needs {}:{}", format_bytes(least.host_budget_bytes),
                            format_bytes(least.host_peak_bytes), listed(least.host_items, variation_bytes(request))),
       .allowed = fmt::format("{} MiB or more for this model and data", mebibytes),
       .remedy = fmt::format("pass --host-budget {}MiB, or fewer --dataloader-num-workers", mebibytes)});
}

BudgetTooSmall too_small(const FitRequest& request, const PlanSummary& smallest, Backend& backend) {
  std::string budget = format_bytes(request.budget_bytes), needed = format_bytes(smallest.predicted_peak_bytes);
  if (budget == needed) {  // equal when rounded to three digits
    budget = fmt::format("{} KiB", request.budget_bytes / kKiB);
    needed = fmt::format("{} KiB", smallest.predicted_peak_bytes / kKiB);
  }
  std::string found =
      fmt::format("{}; the smallest plan (micro-batch {}) needs {}:", budget, smallest.levers.micro_batch_size, needed);
  found += listed(smallest.items, variation_bytes(request));
  if (const std::string outlier = request.outlier ? request.outlier() : ""; !outlier.empty()) {
    found += "\n           " + outlier;
  }
  const BudgetOption& option = request.budget_option;
  const std::size_t enough = smallest.predicted_peak_bytes + variation_bytes(request);
  const std::size_t mebibytes = option.value(enough) / kMiB + 1;
  if (request.generates) {
    std::vector<std::string> others = {"lower --max-new-tokens", "shorten the prompts"};
    if (request.step.precision == DType::kF32) others.emplace_back("compute in bfloat16 (--bf16)");
    if (request.step.model.frozen_weights == DType::kF32) {
      others.emplace_back("hold the weights in fewer bits (--load-in-8bit, --load-in-4bit)");
    }
    if (request.offload == OffloadTarget::kNone) others.emplace_back("leave them in their file (--offload DIR)");
    return BudgetTooSmall(
        {.what = "the texts do not fit the memory budget",
         .where = option.name,
         .found = found,
         .allowed = fmt::format("{} MiB or more for this model and these prompts", mebibytes),
         .remedy = fmt::format("pass {} {}MiB; or {}", option.name, mebibytes, fmt::join(others, ", or "))},
        (enough / kMiB + 1) * kMiB);
  }
  const std::vector<Remedy> remedies = find_remedies(request, smallest, backend);
  std::string remedy = fmt::format("pass {} {}MiB", option.name, mebibytes);
  remedy += remedies.empty() ? ", as none of the changes tried is enough" : ", or change the run, cheapest first:";
  return BudgetTooSmall({.what = "the run does not fit the memory budget",
                         .where = option.name,
                         .found = found,
                         .allowed = fmt::format("{} MiB or more for this model and data", mebibytes),
                         .remedy = remedy + remedies_text(remedies, 11)},
                        (enough / kMiB + 1) * kMiB);
}

}  // namespace plimsoll
