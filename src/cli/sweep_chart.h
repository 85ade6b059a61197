// A sweep over budgets for people: a table in 80 columns, and an SVG picture of it.
#pragma once

#include <span>
#include <string>

#include "fit/fit.h"

namespace plimsoll {

// Returns a plan's estimated pages per second.
double pages_per_second(const PlanSummary& plan, std::int64_t train_batch_size);

// Returns "1 x 8, 80.4 MiB again, two passes": micro-batch x number, and the other levers.
std::string levers_text(const PlanSummary& plan);

std::string sweep_table(std::span<const PlanSummary> plans, std::int64_t train_batch_size);
// Draws the budget to the right and pages per second upwards, with one point per plan. `plans` must not be empty.
std::string sweep_svg(std::span<const PlanSummary> plans, std::int64_t train_batch_size);

}  // namespace plimsoll
