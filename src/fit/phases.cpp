#include "fit/phases.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace plimsoll {

void check_phases(std::initializer_list<std::function<void()>> plans) {
  std::optional<BudgetTooSmall> refusal;
  for (const std::function<void()>& plan : plans) {
    try {
      plan();
    } catch (const BudgetTooSmall& error) {
      if (!refusal || error.smallest_budget_bytes() > refusal->smallest_budget_bytes()) refusal = error;
    }
  }
  if (refusal) throw *std::move(refusal);
}

std::size_t held_bytes(const PlanSummary& plan) {
  return (plan.on_device ? plan.host_items : plan.items).front().bytes;
}

void hold_at_most(FitRequest& request, std::size_t held_bytes) {
  request.process_bytes = [held_bytes] { return std::min(held_bytes, resident_bytes()); };
}

}  // namespace plimsoll
